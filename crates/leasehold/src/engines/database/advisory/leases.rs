//! What this client holds and waits for.
//!
//! A session that holds a lock is granted it again at once. So nothing is asked
//! of the shared connection for a name that it has, or is being asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::LockConnection;
use super::waiter::AdvisoryWaiter;
use crate::claim::LeaseId;
use crate::name::Name;

/// The tickets of one client.
#[derive(Debug, Default)]
pub(super) struct AdvisoryLeases(Mutex<AdvisoryLeaseMap>);

#[derive(Debug, Default)]
struct AdvisoryLeaseMap {
    entries: HashMap<LeaseId, AdvisoryLease>,
    /// Names that the shared connection has, or is asked for.
    taken: HashMap<Name, LeaseId>,
}

/// One ticket.
#[derive(Clone, Debug)]
pub(super) enum AdvisoryLease {
    Held(HeldLock),
    Waiting(Arc<AdvisoryWaiter>),
}

/// A lock that is ours.
#[derive(Clone, Debug)]
pub(super) struct HeldLock {
    pub(super) name: Name,
    pub(super) label: Arc<str>,
    pub(super) connection: Arc<LockConnection>,
    /// Not drawn yet for one that was waited for.
    pub(super) fence: Option<u64>,
}

impl AdvisoryLeases {
    pub(super) fn get(&self, id: LeaseId) -> Option<AdvisoryLease> {
        self.state().entries.get(&id).cloned()
    }

    /// Whether the shared connection may be asked for a name now.
    pub(super) fn reserve(&self, name: &Name, id: LeaseId) -> bool {
        let mut state = self.state();
        let free = !state.taken.contains_key(name);
        if free {
            state.taken.insert(name.clone(), id);
        }
        free
    }

    pub(super) fn unreserve(&self, name: &Name, id: LeaseId) {
        let mut state = self.state();
        if state.taken.get(name) == Some(&id) {
            state.taken.remove(name);
        }
    }

    pub(super) fn put(&self, id: LeaseId, entry: AdvisoryLease) {
        self.state().entries.insert(id, entry);
    }

    /// A waiter got the lock; false if nobody wants it any more.
    pub(super) fn arrived(&self, id: LeaseId, hold: HeldLock) -> bool {
        let mut state = self.state();
        let waits = matches!(state.entries.get(&id), Some(AdvisoryLease::Waiting(_)));
        if waits {
            state.entries.insert(id, AdvisoryLease::Held(hold));
        }
        waits
    }

    pub(super) fn fenced(&self, id: LeaseId, drawn: u64) {
        if let Some(AdvisoryLease::Held(hold)) = self.state().entries.get_mut(&id) {
            hold.fence = Some(drawn);
        }
    }

    pub(super) fn remove(&self, id: LeaseId) -> Option<AdvisoryLease> {
        self.state().entries.remove(&id)
    }

    /// Everything that a connection held is gone with it.
    pub(super) fn lose(&self, connection: &LockConnection) -> Vec<LeaseId> {
        let mut state = self.state();
        let on_it = |entry: &AdvisoryLease| matches!(entry, AdvisoryLease::Held(hold) if hold.connection.same(connection));
        let lost = state.entries.iter().filter(|(_, entry)| on_it(entry)).map(|(id, _)| *id);
        let lost: Vec<_> = lost.collect();
        state.entries.retain(|id, _| !lost.contains(id));
        state.taken.retain(|_, id| !lost.contains(id));
        lost
    }

    /// How a session of ours calls itself, for this name.
    pub(super) fn label(&self, name: &Name, session: i64) -> Option<Arc<str>> {
        self.state().entries.values().find_map(|entry| match entry {
            AdvisoryLease::Held(hold) => (hold.name == *name && hold.connection.session == session)
                .then(|| Arc::clone(&hold.label)),
            AdvisoryLease::Waiting(waiter) => {
                (waiter.session() == Some(session)).then(|| Arc::clone(&waiter.label))
            }
        })
    }

    /// Our lease on a name that a session holds.
    pub(super) fn lease(&self, name: &Name, session: i64) -> Option<(LeaseId, HeldLock)> {
        self.state().entries.iter().find_map(|(id, entry)| match entry {
            AdvisoryLease::Held(hold)
                if hold.name == *name && hold.connection.session == session =>
            {
                Some((*id, hold.clone()))
            }
            _ => None,
        })
    }

    pub(super) fn clear(&self) -> Vec<AdvisoryLease> {
        let mut state = self.state();
        state.taken.clear();
        state.entries.drain().map(|(_, entry)| entry).collect()
    }

    fn state(&self) -> MutexGuard<'_, AdvisoryLeaseMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
