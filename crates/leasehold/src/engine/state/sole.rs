//! What an engine needs that knows the simplest states without a step: a free
//! name, and one with a single holder.

use super::seat::{Lease, Seat};
use super::whole::State;
use super::words::SessionId;
use crate::claim::{Claim, LeaseId, Mode, Predecessor};
use crate::clock::Moment;

impl State {
    /// A free name just after `claim` was granted. Whoever stores it draws the
    /// fence later: until then it is 0, see [`State::fill`].
    pub(crate) fn granted(claim: &Claim, session: SessionId) -> Self {
        let seat = Seat::new(claim, session, Moment::default());
        let (fence, predecessor) = (0, Predecessor::None);
        let lease = Lease { seat, fence, predecessor, bound: false };
        Self { holders: vec![lease], ..Self::default() }
    }

    /// Gives a lease that was stored without them its fence and its beginning.
    pub(crate) fn fill(&mut self, fence: u64, since: Moment) {
        for lease in self.holders.iter_mut().filter(|lease| lease.fence == 0) {
            (lease.fence, lease.seat.since) = (fence, since);
        }
    }

    /// The lease after whose release nothing is left to remember: it holds the
    /// name alone, nobody waits and nothing is bound to it.
    pub(crate) fn sole(&self) -> Option<LeaseId> {
        let [lease] = self.holders.as_slice() else { return None };
        let alone = matches!(lease.seat.mode, Mode::Exclusive | Mode::Write);
        (alone && self.queue.is_empty() && !lease.bound).then_some(lease.seat.id)
    }

    /// Whether it is free, with nothing to remember but a clean end.
    pub(crate) fn is_blank(&self, now: Moment) -> bool {
        let clean = self.last.as_ref().is_none_or(|last| last.how == Predecessor::Released);
        let idle = self.holders.is_empty() && self.queue.is_empty();
        idle && clean && self.closed_until <= now
    }

    /// The label and the remark of whoever holds it, oldest first.
    pub(crate) fn owner(&self) -> Option<(&str, Option<&str>)> {
        let seat = &self.holders.first()?.seat;
        Some((seat.owner.label(), seat.meta.as_deref()))
    }
}
