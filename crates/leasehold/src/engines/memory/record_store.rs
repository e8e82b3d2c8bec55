//! The records of the memory engine.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::sorted_table::SortedTable;
use crate::claim::{LeaseId, RawRecord, Ticket};
use crate::clock::Moment;
use crate::engine::{RecordEvent, Scope};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::name::Name;

/// How many records whose time is up are removed in passing.
const BROOM: usize = 64;

#[derive(Debug, Default)]
pub(super) struct MemoryRecords {
    drawers: SortedTable<NamespaceRecords>,
    /// Which records end when, by themselves.
    lapses: BTreeSet<(Moment, Name)>,
    /// None of them ends before.
    next_lapse: Moment,
    bonds: BTreeMap<LeaseId, Bond>,
    /// When each of those leases ends if nobody renews it.
    ends: BTreeSet<(Moment, LeaseId)>,
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
    ends: Moment,
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

    /// A lease that may have ended by now, and what it is on.
    pub(super) fn next_end(&self, now: Moment) -> Option<(LeaseId, Name)> {
        let (_, id) = self.ends.first().filter(|(ends, _)| *ends <= now)?;
        self.bonds.get(id).map(|bond| (*id, bond.lease.clone()))
    }

    /// A lease goes on until then.
    pub(super) fn goes_on(&mut self, id: LeaseId, until: Moment) {
        if let Some(bond) = self.bonds.get_mut(&id) {
            self.ends.remove(&(bond.ends, id));
            bond.ends = until;
            self.ends.insert((until, id));
        }
    }

    /// Puts a value there in place of whatever was.
    pub(super) fn put(
        &mut self,
        name: &Name,
        record: RawRecord,
        expires: Moment,
        lease: Option<(&Ticket, Moment)>,
    ) {
        self.unlink(name);
        self.tell_stored(name, &record);
        if expires != Moment::NEVER {
            self.next_lapse = self.next_lapse.min(expires);
            self.lapses.insert((expires, name.clone()));
        }
        if let Some((ticket, ends)) = lease {
            let new = || Bond { lease: ticket.name.clone(), ends, records: BTreeSet::new() };
            self.bonds.entry(ticket.id).or_insert_with(new).records.insert(name.clone());
            self.goes_on(ticket.id, ends);
        }
        let lease = lease.map(|(ticket, _)| ticket.id);
        self.drawers.put(name, NamespaceRecords { record, expires, lease });
    }

    /// Changes a value that is there, and nothing else of it.
    pub(super) fn change(&mut self, name: &Name, record: RawRecord) {
        self.tell_stored(name, &record);
        if let Some(space) = self.drawers.get_mut(name) {
            space.record = record;
        }
    }

    /// Removes whatever is there; `version` is that of its end.
    pub(super) fn remove(&mut self, name: &Name, version: u64) {
        self.unlink(name);
        if self.drawers.remove(name).is_some() {
            self.tell(name, || RecordEvent::Deleted(name.clone(), version));
        }
    }

    /// Removes each of these, under a version of its own.
    fn remove_all(&mut self, names: impl IntoIterator<Item = Name>, last: &mut u64) {
        for name in names {
            *last += 1;
            self.remove(&name, *last);
        }
    }

    /// Takes it out of the tables beside it.
    fn unlink(&mut self, name: &Name) {
        let Some(NamespaceRecords { expires, lease, .. }) = self.drawers.get(name) else { return };
        if *expires != Moment::NEVER {
            self.lapses.remove(&(*expires, name.clone()));
        }
        if let Some(id) = *lease
            && let Some(bond) = self.bonds.get_mut(&id)
        {
            bond.records.remove(name);
            if bond.records.is_empty() {
                self.ends.remove(&(bond.ends, id));
                self.bonds.remove(&id);
            }
        }
    }

    /// Removes what went with a lease. `last` is the last version that was drawn.
    pub(super) fn unbind(&mut self, lease: LeaseId, last: &mut u64) {
        let bond = self.bonds.get(&lease).map(|bond| bond.records.clone()).unwrap_or_default();
        self.remove_all(bond, last);
    }

    /// Removes a record if its time is up.
    pub(super) fn lapse_one(&mut self, name: &Name, now: Moment, last: &mut u64) {
        let over = self.drawers.get(name).is_some_and(|space| space.expires <= now);
        self.remove_all(over.then(|| name.clone()), last);
    }

    /// Removes some of the records whose time is up.
    pub(super) fn lapse(&mut self, now: Moment, last: &mut u64) {
        if now < self.next_lapse {
            return;
        }
        let over = self.lapses.iter().take_while(|(at, _)| *at <= now).take(BROOM);
        let over: Vec<Name> = over.map(|(_, name)| name.clone()).collect();
        self.remove_all(over, last);
        self.next_lapse = self.next_lapse();
    }

    /// When a watcher has to look although nobody changes anything.
    pub(super) fn look_at(&self) -> Moment {
        let end = self.ends.first().map_or(Moment::NEVER, |(ends, _)| *ends);
        self.next_lapse().min(end)
    }

    /// When the next one ends by itself.
    pub(super) fn next_lapse(&self) -> Moment {
        self.lapses.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        self.drawers.size()
    }

    /// Puts some names in order; whether all are.
    pub(super) fn sort_some(&mut self) -> bool {
        self.drawers.sort_some()
    }

    /// The first name from here on, of those that are in order.
    pub(super) fn first(&self, from: Bound<&Name>) -> Option<&Name> {
        self.drawers.walk(from).next().map(|(name, _)| name)
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
