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
    /// How much longer than its ttl the store keeps it: a lock delay.
    delay: Duration,
    known: Mutex<SessionFacts>,
    state: watch::Sender<SessionState>,
}

/// What is known at one moment. Both belong together: a ttl counts from the sign
/// of life that it was agreed with.
#[derive(Clone, Copy, Debug)]
struct SessionFacts {
    ttl: Duration,
    /// When the request left that last proved it alive.
    proven: Moment,
    /// Until when it must not be ended, whoever closes it.
    closed_until: Moment,
}

#[derive(Clone, Copy, Debug, Default)]
struct SessionState {
    over: bool,
    /// How often less became certain than had been told.
    cuts: u64,
}

/// The news of a session.
#[derive(Debug)]
pub(super) struct SessionNews(watch::Receiver<SessionState>);

impl SessionNews {
    /// Resolves once less is certain than before (true), or it is over.
    pub(super) async fn is_cut(&mut self) -> bool {
        // A sender that has gone leaves a session that nobody can use.
        !self.0.borrow().over && self.0.changed().await.is_ok() && !self.0.borrow_and_update().over
    }
}

impl Session {
    /// A session that a request sent at `sent_at` made. `ttl` is what the store
    /// promised, less what one of its servers may be behind, less the delay.
    pub(in crate::engines) fn new(
        id: u64,
        ttl: Duration,
        delay: Duration,
        sent_at: Moment,
    ) -> Self {
        let known = SessionFacts { ttl, proven: sent_at, closed_until: Moment::default() };
        Self { id, delay, known: Mutex::new(known), state: watch::Sender::default() }
    }

    pub(in crate::engines) const fn id(&self) -> u64 {
        self.id
    }

    pub(in crate::engines) const fn delay(&self) -> Duration {
        self.delay
    }

    /// Its ttl, and the send time of the request that last proved it alive.
    pub(in crate::engines) fn known(&self) -> (Duration, Moment) {
        let known = self.locked();
        (known.ttl, known.proven)
    }

    pub(in crate::engines) fn ttl(&self) -> Duration {
        self.known().0
    }

    pub(in crate::engines) fn proven(&self) -> Moment {
        self.known().1
    }

    /// When it may be over, if nothing more is heard.
    pub(in crate::engines) fn deadline(&self) -> Moment {
        let (ttl, proven) = self.known();
        proven.after(ttl)
    }

    /// A request that left at `sent_at` has proved it alive.
    pub(in crate::engines) fn prove(&self, sent_at: Moment) {
        let mut known = self.locked();
        known.proven = sent_at.max(known.proven);
    }

    /// The store keeps it for this ttl from a request on that left at `sent_at`.
    /// That may be less than before, and is less at once; it is not more before
    /// that is proved.
    pub(in crate::engines) fn retime(&self, ttl: Duration, sent_at: Moment) {
        let mut known = self.locked();
        if known.ttl == ttl {
            return;
        }
        let certain = known.proven.after(known.ttl);
        let deadline = certain.min(sent_at.after(ttl));
        (known.ttl, known.proven) = (ttl, deadline.before(ttl));
        drop(known);
        if deadline < certain {
            self.state.send_modify(|state| state.cuts += 1);
        }
    }

    /// What was on it stays closed until then: it is left to end by itself.
    pub(super) fn keep_closed(&self, until: Moment) {
        let mut known = self.locked();
        known.closed_until = until.max(known.closed_until);
    }

    /// Whether it may be ended at `now`, and all that is on it.
    pub(in crate::engines) fn may_end(&self, now: Moment) -> bool {
        now >= self.locked().closed_until
    }

    /// The store has said that it is over, or it was closed.
    pub(in crate::engines) fn end(&self) {
        self.state.send_modify(|state| state.over = true);
    }

    pub(in crate::engines) fn is_over(&self) -> bool {
        self.state.borrow().over
    }

    /// Resolves once it is over.
    pub(in crate::engines) async fn ended(&self) {
        // The sender lives in `self`, so the channel cannot close meanwhile.
        let _ = self.state.subscribe().wait_for(|state| state.over).await;
    }

    pub(super) fn news(&self) -> SessionNews {
        SessionNews(self.state.subscribe())
    }

    fn locked(&self) -> MutexGuard<'_, SessionFacts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: u32) -> Moment {
        Moment::default().after(second * SECOND)
    }

    #[tokio::test]
    async fn a_shorter_time_counts_at_once_and_a_longer_one_when_it_is_proved() {
        let session = Session::new(1, 18 * SECOND, Duration::ZERO, at(100));
        let mut news = session.news();
        session.retime(3 * SECOND, at(110));
        assert_eq!((session.known(), session.deadline()), ((3 * SECOND, at(110)), at(113)));
        assert!(news.is_cut().await, "nobody was told");
        session.retime(18 * SECOND, at(111));
        assert_eq!(session.deadline(), at(113), "nobody has proved it");
        session.prove(at(112));
        assert_eq!(session.deadline(), at(130));
        session.end();
        assert!(!news.is_cut().await);
    }

    #[test]
    fn a_greeting_of_one_server_does_not_prolong_what_is_certain() {
        let session = Session::new(1, 18 * SECOND, Duration::ZERO, at(100));
        session.retime(17 * SECOND, at(110));
        assert_eq!(session.deadline(), at(118));
    }
}
