//! How long a waiter that has to ask waits before it asks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::LeaseId;

const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(128);

/// Twice as long each time, and never the same for two.
#[derive(Debug, Default)]
pub(super) struct Patience(Mutex<HashMap<LeaseId, Duration>>);

impl Patience {
    pub(super) fn next(&self, id: LeaseId) -> Duration {
        let mut all = self.all();
        let pause = all.entry(id).or_insert(FIRST);
        let now = *pause;
        *pause = (now * 2).min(LONGEST);
        now.mul_f64(0.5 + fastrand::f64())
    }

    pub(super) fn forget(&self, id: LeaseId) {
        self.all().remove(&id);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<LeaseId, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
