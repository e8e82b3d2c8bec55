//! The records of the memory engine.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{LeaseId, RawRecord, Ticket};
use crate::clock::Moment;
use crate::engine::records::PageInProgress;
use crate::engine::{Page, RecordEvent, RecordListing, Scope};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::name::{Name, NameMap};

/// How many records whose time is up are removed in passing.
const BROOM: usize = 64;
/// How often a watcher looks whether a lease has expired that keeps a record.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct MemoryRecords {
    drawers: NameMap<NamespaceRecords>,
    /// The names in byte order, from the first time that someone lists them:
    /// most programs never do, and to keep them costs more than the rest.
    order: Option<BTreeSet<Name>>,
    /// Which records end when, by themselves.
    lapses: BTreeSet<(Moment, Name)>,
    /// None of them ends before.
    next_lapse: Moment,
    bonds: BTreeMap<LeaseId, Bond>,
    queues: Vec<(Scope, Arc<WatchQueue>)>,
}

#[derive(Debug)]
struct NamespaceRecords {
    record: RawRecord,
    expires: Moment,
    lease: Option<LeaseId>,
}

/// A lease, and what goes with it.
#[derive(Debug)]
struct Bond {
    lease: Name,
    records: BTreeSet<Name>,
}

impl MemoryRecords {
    pub(super) fn get(&self, name: &Name) -> Option<&RawRecord> {
        self.drawers.get(name).map(|space| &space.record)
    }

    /// Whether its time is up, or the lease it is bound to has to be looked at.
    pub(super) fn may_be_over(&self, name: &Name, now: Moment) -> bool {
        let space = self.drawers.get(name);
        space.is_some_and(|space| space.expires <= now || space.lease.is_some())
    }

    /// What the lease is on that a record is bound to.
    pub(super) fn lease_of(&self, name: &Name) -> Option<Name> {
        let lease = self.drawers.get(name)?.lease?;
        self.bonds.get(&lease).map(|bond| bond.lease.clone())
    }

    /// What all leases are on that records are bound to.
    pub(super) fn leases(&self) -> Vec<Name> {
        self.bonds.values().map(|bond| bond.lease.clone()).collect()
    }

    /// Puts a value there in place of whatever was.
    pub(super) fn put(
        &mut self,
        name: &Name,
        record: RawRecord,
        expires: Moment,
        lease: Option<&Ticket>,
    ) {
        self.take(name);
        self.tell_stored(name, &record);
        if let Some(order) = &mut self.order {
            order.insert(name.clone());
        }
        if expires != Moment::NEVER {
            self.next_lapse = self.next_lapse.min(expires);
            self.lapses.insert((expires, name.clone()));
        }
        if let Some(ticket) = lease {
            let new = || Bond { lease: ticket.name.clone(), records: BTreeSet::new() };
            self.bonds.entry(ticket.id).or_insert_with(new).records.insert(name.clone());
        }
        let lease = lease.map(|ticket| ticket.id);
        self.drawers.insert(name.clone(), NamespaceRecords { record, expires, lease });
    }

    /// Changes a value that is there, and nothing else of it.
    pub(super) fn change(&mut self, name: &Name, record: RawRecord) {
        self.tell_stored(name, &record);
        if let Some(space) = self.drawers.get_mut(name) {
            space.record = record;
        }
    }

    pub(super) fn remove(&mut self, name: &Name) {
        if self.take(name) {
            self.tell(name, || RecordEvent::Deleted(name.clone()));
        }
    }

    fn take(&mut self, name: &Name) -> bool {
        let Some(NamespaceRecords { expires, lease, .. }) = self.drawers.remove(name) else {
            return false;
        };
        if let Some(order) = &mut self.order {
            order.remove(name);
        }
        if expires != Moment::NEVER {
            self.lapses.remove(&(expires, name.clone()));
        }
        if let Some(id) = lease
            && let Some(bond) = self.bonds.get_mut(&id)
        {
            bond.records.remove(name);
            if bond.records.is_empty() {
                self.bonds.remove(&id);
            }
        }
        true
    }

    /// Removes what went with a lease; says how much that was.
    pub(super) fn unbind(&mut self, lease: LeaseId) -> u64 {
        let bond = self.bonds.get(&lease).map(|bond| bond.records.clone()).unwrap_or_default();
        bond.iter().for_each(|name| self.remove(name));
        bond.len() as u64
    }

    /// Removes a record if its time is up.
    pub(super) fn lapse_one(&mut self, name: &Name, now: Moment) -> u64 {
        let over = self.drawers.get(name).is_some_and(|space| space.expires <= now);
        if over {
            self.remove(name);
        }
        u64::from(over)
    }

    /// Removes some of the records whose time is up; says how many.
    pub(super) fn lapse(&mut self, now: Moment) -> u64 {
        if now < self.next_lapse {
            return 0;
        }
        let over = self.lapses.iter().take_while(|(at, _)| *at <= now).take(BROOM);
        let over: Vec<Name> = over.map(|(_, name)| name.clone()).collect();
        over.iter().for_each(|name| self.remove(name));
        self.next_lapse = self.lapses.first().map_or(Moment::NEVER, |(at, _)| *at);
        over.len() as u64
    }

    /// When a watcher has to look although nobody changes anything.
    pub(super) fn look_at(&self, now: Moment) -> Moment {
        let lapse = self.lapses.first().map_or(Moment::NEVER, |(at, _)| *at);
        if self.bonds.is_empty() { lapse } else { lapse.min(now.after(LOOK)) }
    }

    pub(super) fn list(&mut self, scope: &Scope, page: &Page, now: Moment) -> RecordListing {
        if self.order.is_none() {
            self.order = Some(self.drawers.keys().cloned().collect());
        }
        let mut filling = PageInProgress::new(page);
        let mut from = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        while let Some((name, space)) = self.next_from(scope, &from) {
            let leap = scope.leap(name.as_str());
            if leap.is_none()
                && space.expires > now
                && !filling.add(name.clone(), space.record.clone())
            {
                break;
            }
            let ahead = leap.and_then(|text| Name::new(scope.namespace(), text).ok());
            from = ahead.map_or_else(|| Bound::Excluded(name.clone()), Bound::Included);
        }
        filling.done()
    }

    /// The first record at or after `from` that starts with the root.
    fn next_from(&self, scope: &Scope, from: &Bound<Name>) -> Option<(&Name, &NamespaceRecords)> {
        let begins =
            |name: &Name| (name.namespace(), name.as_str()) >= (scope.namespace(), scope.root());
        let start = match from {
            Bound::Included(name) | Bound::Excluded(name) if begins(name) => from.clone(),
            _ => root_of(scope),
        };
        let name = self.order.as_ref()?.range((start, Bound::Unbounded)).next()?;
        let inside = name.namespace() == scope.namespace();
        let found = inside && name.as_str().starts_with(scope.root());
        found.then(|| self.drawers.get_key_value(name)).flatten()
    }

    pub(super) fn watch(&mut self, scope: Scope) -> Arc<WatchQueue> {
        let queue = Arc::new(WatchQueue::default());
        self.queues.push((scope, Arc::clone(&queue)));
        queue
    }

    pub(super) fn unwatch(&mut self, queue: &Arc<WatchQueue>) {
        self.queues.retain(|(_, other)| !Arc::ptr_eq(other, queue));
    }

    pub(super) fn close(&mut self) {
        self.queues.drain(..).for_each(|(_, queue)| queue.close());
    }

    fn tell_stored(&self, name: &Name, record: &RawRecord) {
        self.tell(name, || RecordEvent::Stored(name.clone(), record.clone()));
    }

    fn tell(&self, name: &Name, event: impl Fn() -> RecordEvent) {
        let hearers = self.queues.iter().filter(|(scope, _)| scope.covers(name));
        hearers.for_each(|(_, queue)| queue.push(event()));
    }
}

/// Where the walk through a scope begins. The empty root is no name; the
/// smallest name there is comes before all others.
fn root_of(scope: &Scope) -> Bound<Name> {
    let first = if scope.root().is_empty() { " " } else { scope.root() };
    Name::new(scope.namespace(), first).map_or(Bound::Unbounded, Bound::Included)
}
