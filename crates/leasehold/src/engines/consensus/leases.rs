//! What this client knows of each of its leases: in which session it is, where
//! it stands in line, whether a request of it went unanswered.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::ensemble::{Departure, QueueEntry, QueuePart};
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
    /// Until when it was last said to be ours.
    pub(super) told: Moment,
    /// Values that go with it.
    pub(super) bound: Arc<HashSet<Name>>,
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
        ahead: Option<Arc<str>>,
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
        let at_the_door = self.door.as_ref().is_some_and(|door| door.key == entry.key);
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
            if let Some(seen) = line.iter().find(|seen| seen.key == entry.key) {
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
pub(super) struct OwnLeases(Mutex<HashMap<LeaseId, OwnLease>>);

impl OwnLeases {
    pub(super) fn get(&self, id: LeaseId) -> Option<OwnLease> {
        self.locked().get(&id).cloned()
    }

    /// The session of each of these.
    pub(super) fn sessions<'a>(
        &self,
        ids: impl Iterator<Item = &'a LeaseId>,
    ) -> Vec<Option<Arc<Session>>> {
        let leases = self.locked();
        ids.map(|id| leases.get(id).map(|lease| Arc::clone(&lease.session))).collect()
    }

    pub(super) fn put(&self, lease: OwnLease) {
        self.locked().insert(lease.ticket.id, lease);
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
        self.locked().remove(&id)
    }

    /// Removes a fixed lease, if it still ends at this moment.
    pub(super) fn remove_ending(&self, id: LeaseId, moment: Moment) -> Option<OwnLease> {
        let mut leases = self.locked();
        let ends = leases.get(&id)?.fixed.as_ref().is_some_and(|(end, _)| *end == moment);
        if ends { leases.remove(&id) } else { None }
    }

    /// Changes a lease, if it is there.
    pub(super) fn update<T>(
        &self,
        id: LeaseId,
        change: impl FnOnce(&mut OwnLease) -> T,
    ) -> Option<T> {
        self.locked().get_mut(&id).map(change)
    }

    /// The leases that live on a session.
    pub(super) fn of(&self, session: &Session) -> Vec<LeaseId> {
        let leases = self.locked();
        let on = leases.values().filter(|lease| lease.session.id() == session.id());
        on.map(|lease| lease.ticket.id).collect()
    }

    pub(super) fn clear(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<LeaseId, OwnLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
