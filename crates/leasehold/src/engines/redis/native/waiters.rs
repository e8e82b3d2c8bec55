//! Who waits here, and what they are told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::{LeaseId, Predecessor, Wake};
use crate::mutant::{self, Mutant};

/// The waiters of one client, by lease id.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<BTreeMap<LeaseId, NativeWaiter>>);

/// A grant may come before its waiter has been told that it waits, and before
/// it listens: it is kept until the lease id is done with.
#[derive(Debug, Default)]
struct NativeWaiter {
    rings: Arc<Notify>,
    grant: Option<(u64, Predecessor)>,
    /// What was granted up to this fence was granted to an earlier place.
    floor: u64,
}

impl NativeWaiter {
    /// Whether this may be granted to the place that the waiter has now.
    fn may_have(&self, fence: u64) -> bool {
        fence > self.floor || mutant::lives(Mutant::StaleHandOver)
    }
}

impl Waiters {
    /// From now on grants for this lease are kept.
    pub(super) fn hang(&self, id: LeaseId) {
        self.all().entry(id).or_default();
    }

    /// Nothing is kept for it any more. If it waits all the same it looks for
    /// itself: nobody rings for it now.
    pub(super) fn take_down(&self, id: LeaseId) {
        if let Some(waiter) = self.all().remove(&id) {
            waiter.rings.notify_one();
        }
    }

    pub(super) fn rings(&self, id: LeaseId) -> Option<Arc<Notify>> {
        self.all().get(&id).map(|waiter| Arc::clone(&waiter.rings))
    }

    /// What a waiter that was rung for may take along.
    pub(super) fn wake(&self, id: LeaseId) -> Wake {
        let grant = self.all().get_mut(&id).and_then(|waiter| waiter.grant.take());
        grant.map_or(Wake::Look, |(fence, predecessor)| Wake::Granted { fence, predecessor })
    }

    /// The waiter has a place to which nothing up to `floor` was granted: news
    /// that say otherwise are of an earlier place, which has ended.
    pub(super) fn raise(&self, id: LeaseId, floor: u64) {
        if let Some(waiter) = self.all().get_mut(&id) {
            waiter.floor = waiter.floor.max(floor);
            waiter.grant = waiter.grant.filter(|(fence, _)| waiter.may_have(*fence));
        }
    }

    /// A grant that is not meant for its place wakes a waiter, too: it looks.
    pub(super) fn ring(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        if let Some(waiter) = self.all().get_mut(&id) {
            if waiter.may_have(fence) {
                waiter.grant = Some((fence, predecessor));
            }
            waiter.rings.notify_one();
        }
    }

    /// Something may have been missed: everyone looks for themselves.
    pub(super) fn ring_all(&self) {
        self.all().values().for_each(|waiter| waiter.rings.notify_one());
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<LeaseId, NativeWaiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_of_an_earlier_place_is_not_taken_along() {
        let (waiters, id) = (Waiters::default(), LeaseId::random());
        waiters.hang(id);
        waiters.ring(id, 7, Predecessor::None);
        waiters.raise(id, 7);
        assert!(matches!(waiters.wake(id), Wake::Look), "it came before the place");
        waiters.ring(id, 6, Predecessor::None);
        assert!(matches!(waiters.wake(id), Wake::Look), "it came after the place, and late");
        waiters.ring(id, 8, Predecessor::None);
        waiters.raise(id, 7);
        assert!(matches!(waiters.wake(id), Wake::Granted { fence: 8, .. }));
    }
}
