//! When somebody has to look for all who wait here.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::notify::Tickets;
use crate::clock::Moment;

/// When the next roll call is due.
#[derive(Debug)]
pub(super) struct NextCall {
    /// In nanoseconds; that of [`Moment::NEVER`] while everyone has to ring.
    at: AtomicU64,
    sooner: Notify,
}

impl Default for NextCall {
    fn default() -> Self {
        Self { at: AtomicU64::new(Moment::NEVER.nanos()), sooner: Notify::new() }
    }
}

impl NextCall {
    /// Somebody waits for a name that may open then.
    pub(super) fn note(&self, look_at: Moment) {
        let at = self.at.load(Ordering::SeqCst);
        if look_at.nanos() < at || at == Moment::NEVER.nanos() {
            self.sooner.notify_one();
        }
    }

    /// When that is: by `poll` in any case, and when a name may open; never while
    /// nobody waits. Moments up to the last call have been looked at already.
    pub(super) fn plan(&self, tickets: &Tickets, poll: Moment, called: Moment) -> Moment {
        // Whoever comes while this is found out rings.
        self.at.store(Moment::NEVER.nanos(), Ordering::SeqCst);
        let looks = tickets.waiting(|_, _, outlook| Some(outlook.look_at));
        let at = if looks.is_empty() {
            Moment::NEVER
        } else {
            looks.into_iter().filter(|at| *at > called).fold(poll, Moment::min)
        };
        self.at.store(at.nanos(), Ordering::SeqCst);
        at
    }

    /// Ends when somebody needs a look sooner than was planned.
    pub(super) async fn rung(&self) {
        self.sooner.notified().await;
    }
}
