//! What this client holds: enough to answer a repeated claim, and to take a
//! lease to nodes that miss it. Leases are found by their tickets; what is kept
//! of them, and what nodes know, is the bid that was granted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::fate::Fate;
use crate::claim::{Claim, LeaseId, Ticket};

#[derive(Debug)]
pub(super) struct QuorumLease {
    pub(super) claim: Claim,
    pub(super) fence: u64,
    /// Tasks of late nodes listen here.
    fate: watch::Sender<Fate>,
}

#[derive(Debug, Default)]
pub(super) struct QuorumLeases(Mutex<HashMap<LeaseId, QuorumLease>>);

impl QuorumLeases {
    pub(super) fn keep(&self, id: LeaseId, claim: Claim, fence: u64, fate: watch::Sender<Fate>) {
        self.leases().insert(id, QuorumLease { claim, fence, fate });
    }

    /// The claim of a lease, as its bid, and the fence it was granted with.
    pub(super) fn recall(&self, id: LeaseId) -> Option<(Claim, u64)> {
        self.leases().get(&id).map(|hold| (hold.claim.clone(), hold.fence))
    }

    /// Whether this very bid is held.
    pub(super) fn has(&self, id: LeaseId, bid: &Ticket) -> bool {
        self.leases().get(&id).is_some_and(|hold| hold.claim.ticket.id == bid.id)
    }

    /// The ticket that holds this very bid.
    pub(super) fn ticket_of(&self, bid: LeaseId) -> Option<LeaseId> {
        let leases = self.leases();
        leases.iter().find(|(_, hold)| hold.claim.ticket.id == bid).map(|(id, _)| *id)
    }

    /// Changes what is known of a lease.
    pub(super) fn change(&self, id: LeaseId, change: impl FnOnce(&mut Claim)) {
        if let Some(hold) = self.leases().get_mut(&id) {
            change(&mut hold.claim);
        }
    }

    /// Ends a lease, also for nodes that have not answered its claim yet.
    pub(super) fn end(&self, id: LeaseId) -> Option<Claim> {
        let hold = self.leases().remove(&id)?;
        hold.fate.send_replace(Fate::Ended);
        Some(hold.claim)
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<LeaseId, QuorumLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
