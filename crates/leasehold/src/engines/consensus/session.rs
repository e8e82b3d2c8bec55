//! A session: what all leases of one client and ttl live on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;

/// What a store calls a session or a lease. It outlives its last sign of life by
/// its ttl, and once over it stays over: leases are bound to one session for ever.
#[derive(Debug)]
pub(in crate::engines) struct Session {
    id: u64,
    ttl: Duration,
    /// When the request left that last proved it alive.
    proven: Mutex<Moment>,
    over: watch::Sender<bool>,
}

impl Session {
    /// A session that a request sent at `sent_at` made. `ttl` is what the store
    /// promised, less what one of its servers may be behind.
    pub(in crate::engines) fn new(id: u64, ttl: Duration, sent_at: Moment) -> Self {
        Self { id, ttl, proven: Mutex::new(sent_at), over: watch::Sender::new(false) }
    }

    pub(in crate::engines) const fn id(&self) -> u64 {
        self.id
    }

    pub(in crate::engines) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The send time of the request that last proved it alive.
    pub(in crate::engines) fn proven(&self) -> Moment {
        *self.locked()
    }

    /// When it may be over, if nothing more is heard.
    pub(in crate::engines) fn deadline(&self) -> Moment {
        self.proven().after(self.ttl)
    }

    /// A request that left at `sent_at` has proved it alive.
    pub(in crate::engines) fn prove(&self, sent_at: Moment) {
        let mut proven = self.locked();
        *proven = sent_at.max(*proven);
    }

    /// The store has said that it is over, or it was closed.
    pub(in crate::engines) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(in crate::engines) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Resolves once it is over.
    pub(in crate::engines) async fn ended(&self) {
        // The sender lives in `self`, so the channel cannot close meanwhile.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    fn locked(&self) -> MutexGuard<'_, Moment> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
