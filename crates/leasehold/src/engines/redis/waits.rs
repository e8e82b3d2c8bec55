//! Those of this client that wait for a name: where each stands, how often it
//! has asked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::LeaseId;
use crate::engines::kit::backoff::Backoff;

/// Of those who spin; Redisson's spin lock has the same.
pub(super) const SPIN: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(128));

#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<HashMap<LeaseId, PolledWait>>);

#[derive(Debug)]
struct PolledWait {
    place: String,
    /// Between its looks; there was none before the first.
    backoff: Option<Backoff>,
    /// How long the holder had left at the last look.
    left: Duration,
}

impl Waits {
    /// Its place in line, made when it first asks.
    pub(super) fn place(&self, id: LeaseId, make: impl FnOnce() -> String) -> String {
        let mut waits = self.waits();
        waits
            .entry(id)
            .or_insert_with(|| PolledWait { place: make(), backoff: None, left: Duration::ZERO })
            .place
            .clone()
    }

    /// One more look in vain; the pause before the next. A holder that has more
    /// time than before is another one: a lock that changes hands is worth to
    /// be looked at more often.
    pub(super) fn in_vain(&self, id: LeaseId, pauses: &Backoff, left: Duration) -> Duration {
        let mut waits = self.waits();
        let Some(wait) = waits.get_mut(&id) else { return pauses.bounds().0 };
        let backoff = wait.backoff.get_or_insert_with(|| pauses.clone());
        if left > wait.left {
            backoff.reset();
        }
        wait.left = left;
        backoff.next()
    }

    /// It does not wait any more; the place it had in line, if it had one.
    pub(super) fn over(&self, id: LeaseId) -> String {
        self.waits().remove(&id).map(|wait| wait.place).unwrap_or_default()
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<LeaseId, PolledWait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_never_vanish() {
        let (waits, id) = (Waits::default(), LeaseId::random());
        let (first, longest) = (Duration::from_millis(10), Duration::from_millis(250));
        let pauses = Backoff::new(first, longest);
        waits.place(id, || "here".into());
        for look in 0..40 {
            let whole = Duration::from_millis(10 << look.min(5)).min(longest);
            let pause = waits.in_vain(id, &pauses, Duration::from_millis(100 - look));
            assert!(pause <= whole && pause >= whole / 2, "{pause:?} at look {look}");
        }
        let after = waits.in_vain(id, &pauses, Duration::from_millis(100));
        assert!(after <= first, "another holder: {after:?}");
        assert_eq!(waits.over(id), "here");
        assert_eq!(waits.over(id), "");
    }
}
