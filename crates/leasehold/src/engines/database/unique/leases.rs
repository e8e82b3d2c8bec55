//! What this client knows of its own leases: fences, and how soon it looks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::LeaseId;
use crate::clock::{Moment, wall_micros};
use crate::engines::kit::backoff::Backoff;
use crate::name::Name;

/// The leases and waits of one client.
#[derive(Debug)]
pub(super) struct UniqueLeases {
    map: Mutex<UniqueLeaseMap>,
    /// The pauses of each.
    backoff: Backoff,
}

#[derive(Debug, Default)]
struct UniqueLeaseMap {
    leases: HashMap<LeaseId, RowLease>,
    last: u64,
}

/// One lease, from its first request on.
#[derive(Clone, Debug)]
pub(super) struct RowLease {
    pub(super) name: Name,
    pub(super) fence: u64,
    pub(super) standing: RowStanding,
    /// Until when its row is certainly kept, by what was confirmed.
    until: Moment,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowStanding {
    /// Asked for.
    Asked,
    /// The answer to a request was lost, or may yet be.
    Unsure,
    Held,
}

impl UniqueLeases {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { map: Mutex::default(), backoff }
    }

    /// The lease of this id.
    pub(super) fn ask(&self, id: LeaseId, name: &Name) -> RowLease {
        let mut state = self.state();
        if let Some(known) = state.leases.get(&id) {
            return known.clone();
        }
        let (name, until, backoff) = (name.clone(), Moment::default(), self.backoff.clone());
        let lease = RowLease { name, fence: 0, standing: RowStanding::Asked, until, backoff };
        state.leases.insert(id, lease.clone());
        lease
    }

    /// It was granted until then; its fence. The table has none, so it grows with
    /// this host's clock and is no promise.
    pub(super) fn granted(&self, id: LeaseId, until: Moment) -> u64 {
        let mut state = self.state();
        let next = wall_micros().max(state.last + 1);
        let Some(lease) = state.leases.get_mut(&id) else { return next };
        (lease.standing, lease.until) = (RowStanding::Held, until);
        if lease.fence == 0 {
            lease.fence = next;
        }
        let fence = lease.fence;
        state.last = state.last.max(fence);
        fence
    }

    /// A renewal that left at `sent_at` was confirmed: for how long from then on
    /// the row is kept. That may be longer, for an end only moves on.
    pub(super) fn renewed(&self, id: LeaseId, sent_at: Moment, ttl: Duration) -> Duration {
        let mut state = self.state();
        let Some(lease) = state.leases.get_mut(&id) else { return ttl };
        lease.until = lease.until.max(sent_at.after(ttl));
        lease.until.since(sent_at)
    }

    pub(super) fn note(&self, id: LeaseId, standing: RowStanding) {
        if let Some(lease) = self.state().leases.get_mut(&id) {
            lease.standing = standing;
        }
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<RowLease> {
        self.state().leases.get(&id).cloned()
    }

    /// One more look in vain; how long to wait for the next.
    pub(super) fn in_vain(&self, id: LeaseId) -> Duration {
        let mut state = self.state();
        let Some(lease) = state.leases.get_mut(&id) else { return self.backoff.clone().next() };
        lease.backoff.next()
    }

    pub(super) fn forget(&self, id: LeaseId) {
        self.state().leases.remove(&id);
    }

    /// The lease of ours that holds `name`, with this fence if one is given.
    pub(super) fn holding(&self, name: &Name, fence: Option<u64>) -> Option<(LeaseId, u64)> {
        let state = self.state();
        let mut held = state.leases.iter().filter(|(_, lease)| lease.standing == RowStanding::Held);
        let fits =
            |lease: &RowLease| lease.name == *name && fence.is_none_or(|it| it == lease.fence);
        held.find(|(_, lease)| fits(lease)).map(|(id, lease)| (*id, lease.fence))
    }

    fn state(&self) -> MutexGuard<'_, UniqueLeaseMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
