//! What an engine with sessions needs to know of a name's state.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::seat::Lease;
use super::seat::Seat;
use super::whole::State;
use super::words::SessionId;
use crate::claim::{LeaseId, Predecessor};
use crate::clock::Moment;

impl State {
    /// Gives every seat that a session keeps alive the session's expiry.
    ///
    /// An engine that renews a thousand leases by writing one row stores the
    /// expiry there, and calls this before each step. A session that is gone
    /// has expired; [`Moment::default`] says that nobody knows when.
    pub(crate) fn follow(&mut self, expiry: impl Fn(SessionId) -> Moment) {
        let follow = |seat: &mut Seat| {
            if seat.session != 0 {
                seat.expires = expiry(seat.session);
            }
        };
        self.holders.iter_mut().for_each(|lease| follow(&mut lease.seat));
        self.queue.update(follow);
    }

    /// The sessions of all seats.
    #[cfg(any(feature = "sqlite", test))]
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let held = self.holders.iter().map(|lease| lease.seat.session);
        held.chain(self.queue.iter().map(|seat| seat.session)).filter(|session| *session != 0)
    }

    /// The sessions whose leases keep others waiting.
    pub(crate) fn holding_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.holders.iter().map(|lease| lease.seat.session).filter(|session| *session != 0)
    }

    /// The seat with this id: its session, and what it was granted if it holds.
    pub(crate) fn find(&self, id: LeaseId) -> Option<(SessionId, Option<(u64, Predecessor)>)> {
        let holder = self.holders.iter().find(|lease| lease.seat.id == id);
        if let Some(lease) = holder {
            return Some((lease.seat.session, Some((lease.fence, lease.predecessor))));
        }
        self.queue.find(id).map(|seat| (seat.session, None))
    }

    /// What was granted, and is held: which lease, in which session, with which fence,
    /// and after whom.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn grants(&self) -> impl Iterator<Item = (LeaseId, SessionId, u64, Predecessor)> {
        let grant =
            |lease: &Lease| (lease.seat.id, lease.seat.session, lease.fence, lease.predecessor);
        self.holders.iter().map(grant)
    }

    /// The sessions that `id` has to wait for: those of the holders, then those
    /// of everyone before it in the queue.
    #[cfg(feature = "sqlite")]
    pub(crate) fn ahead(&self, id: LeaseId) -> impl Iterator<Item = SessionId> {
        let queued = self.queue.iter().take_while(move |seat| seat.id != id);
        self.holding_sessions().chain(queued.map(|seat| seat.session))
    }

    /// Moves every point in time, after the clock itself has changed its zero.
    #[cfg(any(feature = "sqlite", test))]
    pub(crate) fn shift(&mut self, to: impl Fn(Moment) -> Moment) {
        let shift = |seat: &mut Seat| {
            seat.since = to(seat.since);
            seat.expires = to(seat.expires);
        };
        self.holders.iter_mut().for_each(|lease| shift(&mut lease.seat));
        self.queue.update(shift);
        self.closed_until = to(self.closed_until);
        if let Some(last) = &mut self.last {
            last.at = to(last.at);
        }
    }
}
