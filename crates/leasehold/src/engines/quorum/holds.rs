//! What this client holds: enough to answer a repeated claim, and to take a
//! lease to nodes that miss it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::round::Fate;
use crate::claim::{Claim, LeaseId};

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) claim: Claim,
    pub(super) fence: u64,
    /// Errands of late nodes listen here.
    fate: watch::Sender<Fate>,
}

#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<HashMap<LeaseId, Hold>>);

impl Holds {
    pub(super) fn keep(&self, claim: Claim, fence: u64, fate: watch::Sender<Fate>) {
        self.holds().insert(claim.ticket.id, Hold { claim, fence, fate });
    }

    /// The claim of a lease and the fence it was granted with.
    pub(super) fn recall(&self, id: LeaseId) -> Option<(Claim, u64)> {
        self.holds().get(&id).map(|hold| (hold.claim.clone(), hold.fence))
    }

    /// Changes what is known of a lease.
    pub(super) fn change(&self, id: LeaseId, change: impl FnOnce(&mut Claim)) {
        if let Some(hold) = self.holds().get_mut(&id) {
            change(&mut hold.claim);
        }
    }

    /// Ends a lease, also for nodes that have not answered its claim yet.
    pub(super) fn end(&self, id: LeaseId) {
        if let Some(hold) = self.holds().remove(&id) {
            hold.fate.send_replace(Fate::Ended);
        }
    }

    fn holds(&self) -> MutexGuard<'_, HashMap<LeaseId, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
