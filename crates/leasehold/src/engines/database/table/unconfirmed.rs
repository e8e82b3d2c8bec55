//! Claims whose replies were lost, and which may still arrive.
//!
//! A claim that is held up on its way can overtake the release that followed
//! it, and its lease would live as long as the session that other leases share.
//! So what was released after a lost reply is released once more, when the
//! claim has become too old to be granted.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claim::LeaseId;

/// How many are remembered; whoever loses more replies has other worries.
const MOST: usize = 10_000;

/// The claims of which nobody knows whether they arrived.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedClaims(Mutex<HashSet<LeaseId>>);

impl UnconfirmedClaims {
    fn set(&self) -> MutexGuard<'_, HashSet<LeaseId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply to a claim was lost.
    pub(super) fn fear(&self, id: LeaseId) {
        let mut set = self.set();
        if set.len() < MOST {
            set.insert(id);
        }
    }

    pub(super) fn forget(&self, id: LeaseId) -> bool {
        self.set().remove(&id)
    }
}
