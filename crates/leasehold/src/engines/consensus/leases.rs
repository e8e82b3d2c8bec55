//! What this client knows of each of its leases: in which session it is, where
//! it stands in line, whether a request of it went unanswered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::ensemble::{Departure, EntryAhead, QueueEntry, QueuePart};
use super::session::Session;
use crate::claim::{Claim, LeaseId, Ticket};
use crate::clock::Moment;
use crate::name::Name;

/// One lease of this client, from its first request on.
#[derive(Clone, Debug)]
pub(super) struct OwnLease {
    pub(super) ticket: Ticket,
    pub(super) session: Arc<Session>,
    pub(super) stage: LeaseStage,
    /// Its place at the door, while it wants permits.
    pub(super) door: Option<QueueEntry>,
    /// Its entries in the line that counts.
    pub(super) entries: Vec<QueueEntry>,
    /// The lines in which a request may have left more than is known here.
    pub(super) doubts: Vec<QueuePart>,
    /// The lines in which a join may arrive yet that was not answered, although
    /// all that is there is known from a later one.
    pub(super) stragglers: Vec<QueuePart>,
    /// Until when it was last said to be ours.
    pub(super) told: Moment,
    /// Values that go with it, in the version that was last bound to it.
    pub(super) bound: Arc<HashMap<Name, u64>>,
    /// The key it was granted with, if it has another one by now: what was bound
    /// to it before says that one.
    pub(super) former: Option<Arc<str>>,
    /// Whether it has stood behind others.
    pub(super) waited: bool,
    /// How long it may be held, if it is not renewed.
    pub(super) fixed_for: Option<Duration>,
    /// Who watches over the entries.
    pub(super) tasks: Vec<Arc<Task>>,
    /// Who ends a fixed lease, and when.
    pub(super) fixed: Option<(Moment, Arc<Task>)>,
}

/// How far a lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseStage {
    Asked,
    /// In line behind this entry; `None` while only a look at the whole line
    /// tells.
    Queued {
        ahead: Option<EntryAhead>,
    },
    Held {
        fence: u64,
    },
}

/// A task that ends with its last owner.
#[derive(Debug)]
pub(super) struct Task(pub(super) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl OwnLease {
    pub(super) fn new(claim: &Claim, session: Arc<Session>) -> Self {
        Self {
            ticket: claim.ticket.clone(),
            fixed_for: (!claim.renewed).then_some(claim.ttl),
            session,
            stage: LeaseStage::Asked,
            door: None,
            entries: Vec::new(),
            doubts: Vec::new(),
            stragglers: Vec::new(),
            told: Moment::default(),
            bound: Arc::default(),
            former: None,
            waited: false,
            tasks: Vec::new(),
            fixed: None,
        }
    }

    /// The fence, while it is held.
    pub(super) const fn fence(&self) -> Option<u64> {
        match self.stage {
            LeaseStage::Held { fence } => Some(fence),
            LeaseStage::Asked | LeaseStage::Queued { .. } => None,
        }
    }

    /// Whether a request may have left more than is known here.
    pub(super) const fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Whether anything of it may be in the store, now or later.
    pub(super) fn has_something(&self) -> bool {
        self.is_doubtful() || !self.stragglers.is_empty() || self.all().next().is_some()
    }

    /// A join of this line was not answered, and another one is sent after it.
    pub(super) fn expect_straggler(&mut self, part: QueuePart) {
        if !self.stragglers.contains(&part) {
            self.stragglers.push(part);
        }
    }

    /// Whether a join may arrive late in this line; who asks sees to it.
    pub(super) fn take_straggler(&mut self, part: QueuePart) -> bool {
        let at = self.stragglers.iter().position(|other| *other == part);
        at.map(|at| self.stragglers.swap_remove(at)).is_some()
    }

    /// Whether the name has to stay closed after it, if it was cut off.
    pub(super) fn closes(&self) -> bool {
        self.fence().is_some() && !self.session.delay().is_zero() && !self.session.is_over()
    }

    /// Whether a value that is bound to this key is bound to it.
    pub(super) fn is_bond(&self, key: &Arc<str>) -> bool {
        self.entries.iter().map(|entry| &entry.key).chain(&self.former).any(|own| own == key)
    }

    /// How an entry of it leaves its line.
    pub(super) fn departure(&self, entry: &QueueEntry) -> Departure {
        let at_the_door = self.door.as_ref().is_some_and(|door| door.is_same(entry));
        // Whoever waits for permits to be given back is the first at the door.
        let is_first = at_the_door && self.stage == LeaseStage::Queued { ahead: None };
        match self.fence().is_some() || is_first {
            true => Departure::Front { waited: self.waited },
            false => Departure::Early(entry.behind.clone()),
        }
    }

    /// Takes over whom its entries stand behind by now, as this line shows it.
    pub(super) fn moved_up(&mut self, line: &[QueueEntry]) {
        for entry in self.entries.iter_mut().chain(&mut self.door) {
            if let Some(seen) = line.iter().find(|seen| seen.is_same(entry)) {
                entry.behind.clone_from(&seen.behind);
            }
        }
    }

    /// All that it has in the store.
    pub(super) fn all(&self) -> impl Iterator<Item = &QueueEntry> {
        self.entries.iter().chain(&self.door)
    }
}

/// All leases of this client.
#[derive(Debug, Default)]
pub(super) struct OwnLeases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    leases: HashMap<LeaseId, OwnLease>,
    /// Which of them a value is bound to, and since which change of the store.
    bound: HashMap<Name, (LeaseId, u64)>,
}

impl OwnLeases {
    pub(super) fn get(&self, id: LeaseId) -> Option<OwnLease> {
        self.locked().leases.get(&id).cloned()
    }

    /// The session of each of these.
    pub(super) fn sessions<'a>(
        &self,
        ids: impl Iterator<Item = &'a LeaseId>,
    ) -> Vec<Option<Arc<Session>>> {
        let table = self.locked();
        ids.map(|id| table.leases.get(id).map(|lease| Arc::clone(&lease.session))).collect()
    }

    pub(super) fn put(&self, lease: OwnLease) {
        self.locked().leases.insert(lease.ticket.id, lease);
    }

    /// A lease that is given up: nobody watches over it any more.
    pub(super) fn dismiss(&self, id: LeaseId) -> Option<OwnLease> {
        self.update(id, |lease| {
            lease.tasks.clear();
            lease.fixed = None;
            lease.clone()
        })
    }

    pub(super) fn remove(&self, id: LeaseId) -> Option<OwnLease> {
        self.locked().remove(id)
    }

    /// Removes a fixed lease, if it still ends at this moment.
    pub(super) fn remove_ending(&self, id: LeaseId, moment: Moment) -> Option<OwnLease> {
        let mut table = self.locked();
        let fixed = table.leases.get(&id)?.fixed.as_ref();
        if fixed.is_some_and(|(end, _)| *end == moment) { table.remove(id) } else { None }
    }

    /// Changes a lease, if it is there.
    pub(super) fn update<T>(
        &self,
        id: LeaseId,
        change: impl FnOnce(&mut OwnLease) -> T,
    ) -> Option<T> {
        self.locked().leases.get_mut(&id).map(change)
    }

    /// The leases that live on a session.
    pub(super) fn of(&self, session: &Session) -> Vec<LeaseId> {
        let table = self.locked();
        let on = table.leases.values().filter(|lease| lease.session.id() == session.id());
        on.map(|lease| lease.ticket.id).collect()
    }

    /// A change has bound a value to this lease of ours, or to none: whether the lease
    /// is there. Changes may be told in another order than that of the store.
    pub(super) fn bind(&self, name: &Name, to: Option<LeaseId>, version: u64) -> bool {
        let mut table = self.locked();
        let to = to.filter(|id| table.leases.contains_key(id));
        let former = table.bound.get(name).copied();
        if former.is_none_or(|(_, newer)| newer < version) {
            table.unbind(name, former);
            table.bind(name, to, version);
        }
        to.is_some()
    }

    /// A value was written that stays bound to what it was bound to in that version.
    pub(super) fn rewritten(&self, name: &Name, before: Option<u64>, version: u64) {
        let mut table = self.locked();
        let bound = table.bound.get(name).filter(|(_, bound)| Some(*bound) == before);
        if let Some(id) = bound.map(|(id, _)| *id) {
            table.bind(name, Some(id), version);
        }
    }

    pub(super) fn clear(&self) {
        *self.locked() = LeaseTable::default();
    }

    fn locked(&self) -> MutexGuard<'_, LeaseTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseTable {
    fn remove(&mut self, id: LeaseId) -> Option<OwnLease> {
        let lease = self.leases.remove(&id)?;
        for name in lease.bound.keys() {
            self.bound.remove(name);
        }
        Some(lease)
    }

    fn unbind(&mut self, name: &Name, former: Option<(LeaseId, u64)>) {
        self.bound.remove(name);
        if let Some(lease) = former.and_then(|(id, _)| self.leases.get_mut(&id)) {
            Arc::make_mut(&mut lease.bound).remove(name);
        }
    }

    fn bind(&mut self, name: &Name, to: Option<LeaseId>, version: u64) {
        let Some((id, lease)) = to.and_then(|id| Some((id, self.leases.get_mut(&id)?))) else {
            return;
        };
        Arc::make_mut(&mut lease.bound).insert(name.clone(), version);
        self.bound.insert(name.clone(), (id, version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Mode, Owner};
    use crate::name::Namespace;

    fn name(text: &str) -> Name {
        Name::new(&Namespace::default(), text).unwrap()
    }

    fn lease(leases: &OwnLeases) -> LeaseId {
        let minute = Duration::from_secs(60);
        let ticket = Ticket::new(name("n"), Mode::Exclusive);
        let session = Arc::new(Session::new(1, minute, Duration::ZERO, Moment::default()));
        let lease = OwnLease::new(&Claim::new(ticket, Owner::new("me"), minute), session);
        let id = lease.ticket.id;
        leases.put(lease);
        id
    }

    fn bound(leases: &OwnLeases, id: LeaseId) -> Vec<Name> {
        leases.get(id).unwrap().bound.keys().cloned().collect()
    }

    #[test]
    fn a_lease_forgets_values_that_are_not_bound_to_it_any_more() {
        let leases = OwnLeases::default();
        let (one, two) = (lease(&leases), lease(&leases));
        assert!(leases.bind(&name("a"), Some(one), 1));
        assert!(leases.bind(&name("a"), Some(two), 2), "it is the other's now");
        assert_eq!((bound(&leases, one), bound(&leases, two)), (vec![], vec![name("a")]));
        assert!(!leases.bind(&name("a"), None, 3), "it is deleted");
        assert_eq!(bound(&leases, two), []);
        leases.bind(&name("b"), Some(two), 5);
        leases.rewritten(&name("b"), Some(3), 7);
        leases.rewritten(&name("b"), Some(5), 6);
        assert_eq!(leases.get(two).unwrap().bound[&name("b")], 6);
        leases.bind(&name("b"), None, 4);
        assert_eq!(bound(&leases, two), [name("b")], "that was before");
        leases.remove(two);
        assert!(leases.locked().bound.is_empty());
        assert!(!leases.bind(&name("b"), Some(two), 6), "nobody will unbind it");
    }
}
