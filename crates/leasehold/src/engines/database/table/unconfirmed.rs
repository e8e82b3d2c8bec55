//! Claims whose replies were lost, and which may still arrive.
//!
//! A claim that is held up on its way can overtake the release that followed
//! it, and its lease would live as long as the session that other leases share.
//! So what was released after a lost reply is released once more, when the
//! claim has become too old to be granted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Inner;
use super::row::GOOD;
use crate::claim::{Ending, LeaseId, Ticket};

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

    fn forget(&self, id: LeaseId) -> bool {
        self.set().remove(&id)
    }
}

impl Inner {
    /// Sees to it that a released ticket stays released.
    pub(super) fn lay_to_rest(self: &Arc<Self>, ticket: &Ticket) {
        if !self.unconfirmed.forget(ticket.id) {
            return;
        }
        let (engine, clock) = (Arc::downgrade(self), self.clock.clone());
        let (ticket, until) = (ticket.clone(), clock.now().after(GOOD));
        self.start(async move {
            clock.sleep_until(until).await;
            if let Some(inner) = engine.upgrade() {
                let _ = inner.leave(&ticket, &Ending::new()).await;
            }
        });
    }
}
