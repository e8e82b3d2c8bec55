//! Who waits here, and what they are told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::{LeaseId, Predecessor, Wake};
use crate::mutant::{self, Mutant};

/// The waiters of one client, by lease id.
#[derive(Debug, Default)]
pub(super) struct Bells(Mutex<BTreeMap<LeaseId, Bell>>);

/// A grant may come before its waiter has been told that it waits, and before
/// it listens: it is kept until the lease id is done with.
#[derive(Debug, Default)]
struct Bell {
    rings: Arc<Notify>,
    grant: Option<(u64, Predecessor)>,
    /// What was granted up to this fence was granted to an earlier place.
    floor: u64,
}

impl Bell {
    /// Whether this may be granted to the place that the waiter has now.
    fn may_have(&self, fence: u64) -> bool {
        fence > self.floor || mutant::lives(Mutant::StaleHandOver)
    }
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

    /// The waiter has a place to which nothing up to `floor` was granted: news
    /// that say otherwise are of an earlier place, which has ended.
    pub(super) fn raise(&self, id: LeaseId, floor: u64) {
        if let Some(bell) = self.all().get_mut(&id) {
            bell.floor = bell.floor.max(floor);
            bell.grant = bell.grant.filter(|(fence, _)| bell.may_have(*fence));
        }
    }

    /// A grant that is not meant for its place wakes a waiter, too: it looks.
    pub(super) fn ring(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        if let Some(bell) = self.all().get_mut(&id) {
            if bell.may_have(fence) {
                bell.grant = Some((fence, predecessor));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_of_an_earlier_place_is_not_taken_along() {
        let (bells, id) = (Bells::default(), LeaseId::random());
        bells.hang(id);
        bells.ring(id, 7, Predecessor::None);
        bells.raise(id, 7);
        assert!(matches!(bells.wake(id), Wake::Look), "it came before the place");
        bells.ring(id, 6, Predecessor::None);
        assert!(matches!(bells.wake(id), Wake::Look), "it came after the place, and late");
        bells.ring(id, 8, Predecessor::None);
        bells.raise(id, 7);
        assert!(matches!(bells.wake(id), Wake::Granted { fence: 8, .. }));
    }
}
