//! The hand that changes a state: one verb, and whom it serves next.

use std::sync::Arc;
use std::time::Duration;

use super::super::inspect::Target;
use super::seat::{Lease, Seat};
use super::whole::State;
use super::words::{Answer, FollowUp, SessionId};
use crate::claim::{Claim, Ending, LeaseId, Mode, Predecessor, Stance};
use crate::clock::Moment;

/// The state with what a step needs around it.
pub(super) struct Hand<'a> {
    pub(super) state: &'a mut State,
    pub(super) now: Moment,
    pub(super) fence: &'a mut u64,
    pub(super) follow_ups: Vec<FollowUp>,
}

impl Hand<'_> {
    pub(super) fn serve_queue(&mut self) {
        while let Some(head) = self.state.queue.head()
            && self.state.has_room(head.mode, self.now)
            && let Some(seat) = self.state.queue.pop_head()
        {
            let (id, session) = (seat.id, seat.session);
            let (fence, predecessor) = self.grant(seat);
            self.follow_ups.push(FollowUp::HandedOver { id, session, fence, predecessor });
        }
    }

    fn grant(&mut self, mut seat: Seat) -> (u64, Predecessor) {
        *self.fence += 1;
        seat.since = self.now;
        let predecessor = self.state.last.as_ref().map_or(Predecessor::None, |last| last.how);
        let lease = Lease { seat, fence: *self.fence, predecessor, bound: false };
        if self.state.holders.is_empty() {
            // Most names never have two holders, and there may be many names.
            self.state.holders.reserve_exact(1);
        }
        self.state.holders.push(lease);
        (*self.fence, predecessor)
    }

    pub(super) fn acquire(&mut self, claim: Claim, session: SessionId) -> Answer {
        let (id, mode) = (claim.ticket.id, claim.ticket.mode);
        let expires = self.now.after(claim.ttl);
        if let Some(other) = self.state.mode_of(id).filter(|own| *own != mode) {
            return Answer::OtherKind(other);
        }
        if let Some(lease) = self.state.holder_mut(id) {
            lease.seat.expires = lease.seat.expires.max(expires);
            return lease.granted(self.now);
        }
        if let Some(other) = self.state.other_kind(mode) {
            return Answer::OtherKind(other);
        }
        if claim.stance == Stance::Try {
            // A try leaves nothing behind, not even what a wait left before.
            self.state.queue.remove(id);
            self.serve_queue();
        } else if self.state.queue.extend(id, expires).is_some() {
            return self.busy(id, mode);
        }
        let seat = Seat::new(&claim, session, self.now);
        if self.state.queue.is_empty() && self.state.has_room(mode, self.now) {
            let (fence, predecessor) = self.grant(seat);
            return Answer::Granted { fence, ttl: claim.ttl, predecessor };
        }
        if matches!(claim.stance, Stance::Wait { .. }) {
            self.state.queue.push(seat);
        }
        self.busy(id, mode)
    }

    fn busy(&self, id: LeaseId, mode: Mode) -> Answer {
        let placed = self.state.queue.find(id);
        Answer::Busy {
            holder: self.state.holders.first().map(|lease| lease.holder(self.now)),
            recheck_in: self.state.recheck_at(id, mode).since(self.now),
            placed: placed.map(|seat| seat.expires.since(self.now)),
        }
    }

    pub(super) fn renew(&mut self, id: LeaseId, ttl: Duration) -> Answer {
        let expires = self.now.after(ttl);
        if let Some(lease) = self.state.holder_mut(id) {
            lease.seat.expires = lease.seat.expires.max(expires);
            return Answer::Held { ttl: lease.seat.expires.since(self.now) };
        }
        match self.state.queue.extend(id, expires) {
            Some(seat) => Answer::Queued { ttl: seat.expires.since(self.now) },
            None => Answer::Gone,
        }
    }

    pub(super) fn release(&mut self, id: LeaseId, ending: &Ending) -> Answer {
        let now = self.now;
        if let Some(at) = self.state.holders.iter().position(|lease| lease.seat.id == id) {
            let lease = self.state.holders.remove(at);
            let delay = if ending.cut_off { lease.seat.delay } else { Duration::ZERO };
            let closed = delay.max(ending.keep_closed.unwrap_or_default());
            if !closed.is_zero() {
                self.state.closed_until = self.state.closed_until.max(now.after(closed));
            }
            let how = lease.ends_as(ending);
            self.follow_ups.extend(self.state.end(lease, how, now, None));
            return Answer::Released;
        }
        self.state.queue.remove(id).map_or(Answer::Gone, |_| Answer::Released)
    }

    pub(super) fn convert(&mut self, id: LeaseId, to: Mode) -> Answer {
        let now = self.now;
        match self.state.holder_mut(id) {
            Some(lease)
                if lease.seat.mode == to || (lease.seat.mode, to) == (Mode::Write, Mode::Read) =>
            {
                lease.seat.mode = to;
                Answer::Held { ttl: lease.seat.expires.since(now) }
            }
            Some(lease) => Answer::OtherKind(lease.seat.mode),
            None => Answer::Gone,
        }
    }

    pub(super) fn bind(&mut self, id: LeaseId) -> Answer {
        let now = self.now;
        let Some(lease) = self.state.holder_mut(id) else { return Answer::Gone };
        lease.bound = true;
        Answer::Held { ttl: lease.seat.expires.since(now) }
    }

    pub(super) fn evict(&mut self, target: Target, remark: &Arc<str>) -> Answer {
        let hit = self.state.holders.extract_if(.., |lease| lease.is(target));
        let evicted: Vec<Lease> = hit.collect();
        let ids = evicted.iter().map(|lease| lease.seat.id).collect();
        for lease in evicted {
            let (id, session) = (lease.seat.id, lease.seat.session);
            self.follow_ups.push(FollowUp::Evicted { id, session });
            let remark = Some(Arc::clone(remark));
            self.follow_ups.extend(self.state.end(lease, Predecessor::Evicted, self.now, remark));
        }
        if target == Target::All {
            self.state.closed_until = Moment::default();
        }
        Answer::Evicted(ids)
    }
}
