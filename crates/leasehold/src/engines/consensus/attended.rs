//! The sessions whose end is waited for.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Their ids: each is waited for once.
#[derive(Debug, Default)]
pub(super) struct Attended(Mutex<HashSet<u64>>);

impl Attended {
    pub(super) fn locked(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
