//! The state of one name, and what can be asked about it.

use std::sync::Arc;
use std::time::Duration;

use super::super::inspect::{Held, Status, Target};
use super::queue::Queue;
use super::seat::{Ended, Lease};
use super::words::FollowUp;
use crate::claim::{LeaseId, Mode, Predecessor};
use crate::clock::Moment;
use crate::name::Name;

/// How long a free name is remembered, at the least.
const LINGER: Duration = Duration::from_secs(60);

/// One name: who holds it, who waits, who was last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub(crate) struct State {
    pub(super) holders: Vec<Lease>,
    #[cfg_attr(
        any(feature = "sqlite", feature = "postgres", feature = "mysql"),
        serde(default, skip_serializing_if = "Queue::is_empty")
    )]
    pub(super) queue: Queue,
    pub(super) closed_until: Moment,
    pub(super) last: Option<Ended>,
}

impl State {
    /// When there is nothing left to remember of this name, unless someone
    /// still holds it or waits.
    pub(crate) fn forget_at(&self) -> Option<Moment> {
        let idle = self.holders.is_empty() && self.queue.is_empty();
        let last = self.last.as_ref().map_or(Moment::default(), |last| last.at.after(last.linger));
        idle.then(|| last.max(self.closed_until))
    }

    /// Whether nobody holds it or waits, and nobody after the last holder needs
    /// to know how that one ended.
    pub(crate) fn ended_well(&self, now: Moment) -> bool {
        let well = |last: &Ended| last.how == Predecessor::Released;
        let idle = self.holders.is_empty() && self.queue.is_empty() && self.closed_until <= now;
        idle && self.last.as_ref().is_none_or(well)
    }

    /// What others may see.
    pub(crate) fn status(&self, name: Name, now: Moment) -> Status {
        let mut seen = self.clone();
        seen.expire(now);
        let mut status = Status::new(name);
        status.holders = seen.holders.iter().map(|lease| lease.held(now)).collect();
        status.waiters = seen.queue.iter().map(|seat| seat.queued(now)).collect();
        let closed = seen.closed_until.since(now);
        status.closed_for = (!closed.is_zero()).then_some(closed);
        status.last = seen.last.as_ref().map(|last| last.shown(now));
        status
    }

    /// Whom an eviction would hit.
    pub(crate) fn targets(&self, target: Target) -> Vec<LeaseId> {
        let hit = self.holders.iter().filter(|lease| lease.is(target));
        hit.map(|lease| lease.seat.id).collect()
    }

    /// The lease with this id, as others may see it.
    pub(crate) fn held(&self, id: LeaseId, now: Moment) -> Option<Held> {
        self.holders.iter().find(|lease| lease.seat.id == id).map(|lease| lease.held(now))
    }

    /// Whether this lease is held now.
    pub(crate) fn holds(&self, id: LeaseId, now: Moment) -> bool {
        self.holders.iter().any(|lease| lease.seat.id == id && lease.seat.expires > now)
    }

    /// Ends a lease at this moment if it would end later: a server whose limits
    /// have changed tells its holder so.
    #[cfg(leasehold_sim)]
    pub(crate) fn shorten(&mut self, id: LeaseId, ends: Moment) {
        if let Some(lease) = self.holder_mut(id) {
            lease.seat.expires = lease.seat.expires.min(ends);
        }
    }

    pub(super) fn expire(&mut self, now: Moment) -> Vec<FollowUp> {
        let lapsed = self.holders.extract_if(.., |lease| lease.seat.expires <= now);
        let mut lapsed: Vec<Lease> = lapsed.collect();
        lapsed.sort_by_key(|lease| lease.seat.ended(now));
        let mut follow_ups = Vec::new();
        for lease in lapsed {
            let at = lease.seat.ended(now);
            self.closed_until = self.closed_until.max(at.after(lease.seat.delay));
            follow_ups.extend(self.end(lease, Predecessor::Expired, at, None));
        }
        self.queue.expire(now);
        follow_ups
    }

    pub(super) fn holder_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.holders.iter_mut().find(|lease| lease.seat.id == id)
    }

    /// As what a lease id holds or waits, if it does.
    pub(crate) fn mode_of(&self, id: LeaseId) -> Option<Mode> {
        let mut held = self.holders.iter().map(|lease| &lease.seat);
        held.find(|seat| seat.id == id).or_else(|| self.queue.find(id)).map(|seat| seat.mode)
    }

    pub(super) fn other_kind(&self, mode: Mode) -> Option<Mode> {
        // All of them are of one kind: whoever is not was refused.
        let held = self.holders.first().map(|lease| lease.seat.mode);
        let other = held.or_else(|| self.queue.iter().next().map(|seat| seat.mode));
        other.filter(|other| !mode.same_kind(*other))
    }

    pub(super) fn has_room(&self, mode: Mode, now: Moment) -> bool {
        self.closed_until <= now && self.fits(mode)
    }

    fn fits(&self, mode: Mode) -> bool {
        let mut held = self.holders.iter().map(|lease| lease.seat.mode);
        match mode {
            Mode::Exclusive | Mode::Write => self.holders.is_empty(),
            Mode::Read => held.all(|other| other == Mode::Read),
            Mode::Permits { take, of } => {
                held.map(Mode::taken).sum::<u64>() + u64::from(take) <= u64::from(of)
            }
        }
    }

    /// The earliest moment at which there may be room without anyone's doing.
    pub(crate) fn opens_at(&self, mode: Mode) -> Moment {
        if self.fits(mode) {
            return self.closed_until;
        }
        let ends = self.holders.iter().map(|lease| lease.seat.expires.after(lease.seat.delay));
        ends.min().unwrap_or_default().max(self.closed_until)
    }

    /// When one who waits, or would, has to see for itself.
    ///
    /// Whoever is not the head has nothing to look for before the head and the one
    /// right before had their chance; this keeps an expiry from waking the whole
    /// queue.
    pub(crate) fn recheck_at(&self, id: LeaseId, mode: Mode) -> Moment {
        let head = self.queue.head().into_iter().filter(|head| head.id != id);
        let ahead = head.chain(self.queue.before(id));
        ahead.map(|seat| seat.expires).fold(self.opens_at(mode), Moment::max)
    }

    /// Remembers how a lease ended; says so if anything is bound to it.
    pub(super) fn end(
        &mut self,
        lease: Lease,
        how: Predecessor,
        at: Moment,
        remark: Option<Arc<str>>,
    ) -> Option<FollowUp> {
        let ended = lease.bound.then_some(FollowUp::Ended { id: lease.seat.id });
        let unclean = |last: &Ended| last.how != Predecessor::Released;
        if lease.seat.mode == Mode::Read
            && how == Predecessor::Released
            && self.last.as_ref().is_some_and(unclean)
        {
            // A reader repairs nothing: the next writer must still hear that
            // the last one died.
            return ended;
        }
        let linger = LINGER.max(lease.seat.ttl.saturating_mul(2));
        self.last =
            Some(Ended { owner: lease.seat.owner, fence: lease.fence, how, at, remark, linger });
        ended
    }
}

impl Mode {
    /// How many permits a holder has; other modes have none to count.
    fn taken(self) -> u64 {
        match self {
            Self::Permits { take, .. } => u64::from(take),
            Self::Exclusive | Self::Read | Self::Write => 0,
        }
    }
}
