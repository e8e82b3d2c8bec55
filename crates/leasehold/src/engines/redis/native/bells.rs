//! Who waits here, and what they are told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::{LeaseId, Predecessor, Wake};

/// The waiters of one client, by lease id.
#[derive(Debug, Default)]
pub(super) struct Bells(Mutex<BTreeMap<LeaseId, Bell>>);

/// A grant may come before its waiter has been told that it waits, and before
/// it listens: it is kept until the lease id is done with.
#[derive(Debug, Default)]
struct Bell {
    rings: Arc<Notify>,
    grant: Option<(u64, Predecessor)>,
}

impl Bells {
    /// From now on grants for this lease are kept.
    pub(super) fn hang(&self, id: LeaseId) {
        self.all().entry(id).or_default();
    }

    pub(super) fn take_down(&self, id: LeaseId) {
        self.all().remove(&id);
    }

    pub(super) fn rings(&self, id: LeaseId) -> Option<Arc<Notify>> {
        self.all().get(&id).map(|bell| Arc::clone(&bell.rings))
    }

    /// What a waiter that was rung for may take along.
    pub(super) fn wake(&self, id: LeaseId) -> Wake {
        let grant = self.all().get_mut(&id).and_then(|bell| bell.grant.take());
        grant.map_or(Wake::Look, |(fence, predecessor)| Wake::Granted { fence, predecessor })
    }

    pub(super) fn ring(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        if let Some(bell) = self.all().get_mut(&id) {
            bell.grant = Some((fence, predecessor));
            bell.rings.notify_one();
        }
    }

    /// Something may have been missed: everyone looks for themselves.
    pub(super) fn ring_all(&self) {
        self.all().values().for_each(|bell| bell.rings.notify_one());
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Bell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
