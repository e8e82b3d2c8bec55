//! What this client holds: enough to answer a repeated claim, and to take a
//! lease to nodes that miss it. Holds are found by their tickets; what is kept
//! of them, and what nodes know, is the bid that was granted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::round::Fate;
use crate::claim::{Claim, LeaseId, Ticket};

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
    pub(super) fn keep(&self, id: LeaseId, claim: Claim, fence: u64, fate: watch::Sender<Fate>) {
        self.holds().insert(id, Hold { claim, fence, fate });
    }

    /// The claim of a lease, as its bid, and the fence it was granted with.
    pub(super) fn recall(&self, id: LeaseId) -> Option<(Claim, u64)> {
        self.holds().get(&id).map(|hold| (hold.claim.clone(), hold.fence))
    }

    /// Whether this very bid is held.
    pub(super) fn has(&self, id: LeaseId, bid: &Ticket) -> bool {
        self.holds().get(&id).is_some_and(|hold| hold.claim.ticket.id == bid.id)
    }

    /// The ticket that holds this very bid.
    pub(super) fn ticket_of(&self, bid: LeaseId) -> Option<LeaseId> {
        let holds = self.holds();
        holds.iter().find(|(_, hold)| hold.claim.ticket.id == bid).map(|(id, _)| *id)
    }

    /// Changes what is known of a lease.
    pub(super) fn change(&self, id: LeaseId, change: impl FnOnce(&mut Claim)) {
        if let Some(hold) = self.holds().get_mut(&id) {
            change(&mut hold.claim);
        }
    }

    /// Ends a lease, also for nodes that have not answered its claim yet.
    pub(super) fn end(&self, id: LeaseId) -> Option<Claim> {
        let hold = self.holds().remove(&id)?;
        hold.fate.send_replace(Fate::Ended);
        Some(hold.claim)
    }

    fn holds(&self) -> MutexGuard<'_, HashMap<LeaseId, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
