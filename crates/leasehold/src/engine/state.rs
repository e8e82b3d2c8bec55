//! The pure core: what one name goes through.
//!
//! [`step`] takes the state of a name, a verb and the time, and answers. It
//! reads no clock, sends nothing and knows no engine, so that it can be run
//! under a mutex, inside a transaction or against a script, and every engine
//! that uses it behaves the same.
//!
//! The rules, in the order they are applied:
//!
//! 1. What has expired goes first: leases (a lock delay keeps the name closed
//!    for a while longer), then places in the queue.
//! 2. The queue is served from the front as long as its head fits beside the
//!    holders. Nobody overtakes it: neither writers nor large takers starve.
//! 3. A lease handed over from the queue ends when its place would have ended,
//!    until its new holder renews it; so a waiter that died blocks others for
//!    one ttl, not two.
//! 4. Renewing never shortens: a client may have been told the longer time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::{Held, Last, Queued, Status, Target};
use crate::claim::{
    Busy, Claim, Ending, Grant, Holder, LeaseId, Mode, Owner, Place, Predecessor, Released,
    Renewal, Stance, Verdict,
};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How long a free name is remembered, at the least.
const LINGER: Duration = Duration::from_secs(60);

/// Who keeps a seat alive, as the engine numbers its sessions; see
/// [`State::follow`].
pub(crate) type SessionId = u64;

/// What an engine wants done with a name.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    /// Grant it, or wait in the queue.
    Acquire { claim: Box<Claim>, session: SessionId },
    /// Keep a lease or a place alive.
    Renew { id: LeaseId, ttl: Duration },
    /// End a lease or leave the queue.
    Release { id: LeaseId, ending: Ending },
    /// Turn a write lease into a read lease.
    Convert { id: LeaseId, to: Mode },
    /// Take leases away.
    Evict { target: Target, remark: Arc<str> },
    /// Something is to go when this lease ends, however it ends.
    Bind { id: LeaseId },
    /// Let time pass.
    Tick,
}

/// What came of a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lease is yours.
    Granted { fence: u64, ttl: Duration, predecessor: Predecessor },
    /// It is not; `placed` is how long the place in the queue is kept.
    Busy { holder: Option<Holder>, recheck_in: Duration, placed: Option<Duration> },
    /// The name is in use as another kind of lock.
    OtherKind(Mode),
    /// Renewed or converted.
    Held { ttl: Duration },
    /// Still in the queue.
    Queued { ttl: Duration },
    /// Neither held nor queued.
    Gone,
    /// It was there and is not any more.
    Released,
    /// These leases were taken away.
    Evicted(Vec<LeaseId>),
    /// Time has passed.
    Ticked,
}

/// What others have to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// This waiter now holds the name.
    HandedOver { id: LeaseId, session: SessionId, fence: u64, predecessor: Predecessor },
    /// This lease was taken away.
    Evicted { id: LeaseId, session: SessionId },
    /// This lease, to which something is bound, has ended.
    Ended { id: LeaseId },
}

impl Answer {
    /// As the answer to a claim that left at `sent_at`.
    pub(crate) fn into_verdict(self, sent_at: Moment) -> Result<Verdict> {
        match self {
            Self::Granted { fence, ttl, predecessor } => {
                Ok(Verdict::Granted(Grant::new(fence, ttl, sent_at).following(predecessor)))
            }
            Self::Busy { holder, recheck_in, placed } => {
                let place = placed.map(|ttl| Place::new(ttl, sent_at));
                Ok(Verdict::Busy(Busy { holder, recheck_in: Some(recheck_in), place, found: None }))
            }
            Self::OtherKind(other) => Err(Error::invalid(format!(
                "the name is in use as {other}, which does not mix with other kinds of lock: \
                 use another name, or the same kind of lock everywhere"
            ))),
            other => Err(other.out_of_place()),
        }
    }

    /// As the answer to a renewal that left at `sent_at`.
    pub(crate) fn into_renewal(self, sent_at: Moment) -> Renewal {
        match self {
            Self::Held { ttl } => Renewal::Held { ttl, sent_at },
            Self::Queued { ttl } => Renewal::Queued(Place::new(ttl, sent_at)),
            Self::Gone => Renewal::Gone,
            other => Renewal::Unknown(other.out_of_place()),
        }
    }

    /// As the answer to a conversion that left at `sent_at`.
    pub(crate) fn into_converted(self, sent_at: Moment) -> Result<Renewal> {
        match self {
            Self::OtherKind(held) => Err(Error::invalid(format!(
                "a {held} lease cannot be converted: only write to read, \
                 because two readers that both want to write would wait for each other"
            ))),
            other => Ok(other.into_renewal(sent_at)),
        }
    }

    /// As the answer to a release.
    pub(crate) fn into_released(self) -> Result<Released> {
        match self {
            Self::Released => Ok(Released::Released),
            Self::Gone => Ok(Released::AlreadyLost),
            other => Err(other.out_of_place()),
        }
    }

    fn out_of_place(&self) -> Error {
        Error::new(ErrorKind::Unexpected, format!("the core gave a wrong answer: {self:?}"))
    }
}

/// An answer, and what others have to be told.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) answer: Answer,
    pub(crate) effects: Vec<Effect>,
}

/// One name: who holds it, who waits, who was last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub(crate) struct State {
    holders: Vec<Lease>,
    queue: VecDeque<Seat>,
    closed_until: Moment,
    last: Option<Ended>,
}

/// A claim that holds or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
struct Seat {
    id: LeaseId,
    mode: Mode,
    owner: Owner,
    ttl: Duration,
    delay: Duration,
    meta: Option<Arc<str>>,
    /// What keeps it alive beside its own expiry; 0 for nothing.
    session: SessionId,
    since: Moment,
    expires: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
struct Lease {
    seat: Seat,
    fence: u64,
    predecessor: Predecessor,
    /// Whether anything goes with it.
    #[cfg_attr(
        any(feature = "sqlite", feature = "postgres", feature = "mysql"),
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    bound: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
struct Ended {
    owner: Owner,
    fence: u64,
    how: Predecessor,
    at: Moment,
    remark: Option<Arc<str>>,
    linger: Duration,
}

/// Takes one step. `fence` is the last fence given out in the namespace.
pub(crate) fn step(state: &mut State, verb: Verb, now: Moment, fence: &mut u64) -> Step {
    let effects = state.expire(now);
    let mut hand = Hand { state, now, fence, effects };
    // Whoever leaves the queue is not served first: it would stand between a
    // holder that died and the next one, who must hear of it.
    if !matches!(verb, Verb::Release { .. }) {
        hand.serve_queue();
    }
    let answer = match verb {
        Verb::Acquire { claim, session } => hand.acquire(*claim, session),
        Verb::Renew { id, ttl } => hand.renew(id, ttl),
        Verb::Release { id, ending } => hand.release(id, &ending),
        Verb::Convert { id, to } => hand.convert(id, to),
        Verb::Evict { target, remark } => hand.evict(target, &remark),
        Verb::Bind { id } => hand.bind(id),
        Verb::Tick => Answer::Ticked,
    };
    hand.serve_queue();
    Step { answer, effects: hand.effects }
}

/// The state with what a step needs around it.
struct Hand<'a> {
    state: &'a mut State,
    now: Moment,
    fence: &'a mut u64,
    effects: Vec<Effect>,
}

impl Hand<'_> {
    fn serve_queue(&mut self) {
        while let Some(head) = self.state.queue.front()
            && self.state.has_room(head.mode, self.now)
            && let Some(seat) = self.state.queue.pop_front()
        {
            let (id, session) = (seat.id, seat.session);
            let (fence, predecessor) = self.grant(seat);
            self.effects.push(Effect::HandedOver { id, session, fence, predecessor });
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

    fn acquire(&mut self, claim: Claim, session: SessionId) -> Answer {
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
            self.state.queue.retain(|seat| seat.id != id);
            self.serve_queue();
        } else if let Some(seat) = self.state.waiter_mut(id) {
            seat.expires = seat.expires.max(expires);
            return self.busy(id, mode);
        }
        let seat = Seat::new(&claim, session, self.now);
        if self.state.queue.is_empty() && self.state.has_room(mode, self.now) {
            let (fence, predecessor) = self.grant(seat);
            return Answer::Granted { fence, ttl: claim.ttl, predecessor };
        }
        if matches!(claim.stance, Stance::Wait { .. }) {
            self.state.queue.push_back(seat);
        }
        self.busy(id, mode)
    }

    fn busy(&self, id: LeaseId, mode: Mode) -> Answer {
        let at = self.state.queue.iter().position(|seat| seat.id == id);
        let ahead = self.state.queue.iter().take(at.unwrap_or(usize::MAX));
        // Whoever is not the head has nothing to look for before the head had
        // its chance; this keeps an expiry from waking the whole queue.
        let look = ahead.map(|seat| seat.expires).fold(self.state.opens_at(mode), Moment::max);
        Answer::Busy {
            holder: self.state.holders.first().map(|lease| lease.holder(self.now)),
            recheck_in: look.since(self.now),
            placed: at.map(|at| self.state.queue[at].expires.since(self.now)),
        }
    }

    fn renew(&mut self, id: LeaseId, ttl: Duration) -> Answer {
        let expires = self.now.after(ttl);
        if let Some(lease) = self.state.holder_mut(id) {
            lease.seat.expires = lease.seat.expires.max(expires);
            return Answer::Held { ttl: lease.seat.expires.since(self.now) };
        }
        match self.state.waiter_mut(id) {
            Some(seat) => {
                seat.expires = seat.expires.max(expires);
                Answer::Queued { ttl: seat.expires.since(self.now) }
            }
            None => Answer::Gone,
        }
    }

    fn release(&mut self, id: LeaseId, ending: &Ending) -> Answer {
        let now = self.now;
        if let Some(at) = self.state.holders.iter().position(|lease| lease.seat.id == id) {
            let lease = self.state.holders.remove(at);
            let delay = if ending.cut_off { lease.seat.delay } else { Duration::ZERO };
            let closed = delay.max(ending.keep_closed.unwrap_or_default());
            if !closed.is_zero() {
                self.state.closed_until = self.state.closed_until.max(now.after(closed));
            }
            let how = lease.ends_as(ending);
            self.effects.extend(self.state.end(lease, how, now, None));
            return Answer::Released;
        }
        let before = self.state.queue.len();
        self.state.queue.retain(|seat| seat.id != id);
        if self.state.queue.len() < before { Answer::Released } else { Answer::Gone }
    }

    fn convert(&mut self, id: LeaseId, to: Mode) -> Answer {
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

    fn bind(&mut self, id: LeaseId) -> Answer {
        let now = self.now;
        let Some(lease) = self.state.holder_mut(id) else { return Answer::Gone };
        lease.bound = true;
        Answer::Held { ttl: lease.seat.expires.since(now) }
    }

    fn evict(&mut self, target: Target, remark: &Arc<str>) -> Answer {
        let hit = self.state.holders.extract_if(.., |lease| lease.is(target));
        let evicted: Vec<Lease> = hit.collect();
        let ids = evicted.iter().map(|lease| lease.seat.id).collect();
        for lease in evicted {
            let (id, session) = (lease.seat.id, lease.seat.session);
            self.effects.push(Effect::Evicted { id, session });
            let remark = Some(Arc::clone(remark));
            self.effects.extend(self.state.end(lease, Predecessor::Evicted, self.now, remark));
        }
        if target == Target::All {
            self.state.closed_until = Moment::default();
        }
        Answer::Evicted(ids)
    }
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

    fn expire(&mut self, now: Moment) -> Vec<Effect> {
        let lapsed = self.holders.extract_if(.., |lease| lease.seat.expires <= now);
        let mut lapsed: Vec<Lease> = lapsed.collect();
        lapsed.sort_by_key(|lease| lease.seat.ended(now));
        let mut effects = Vec::new();
        for lease in lapsed {
            let at = lease.seat.ended(now);
            self.closed_until = self.closed_until.max(at.after(lease.seat.delay));
            effects.extend(self.end(lease, Predecessor::Expired, at, None));
        }
        self.queue.retain(|seat| seat.expires > now);
        effects
    }

    fn holder_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.holders.iter_mut().find(|lease| lease.seat.id == id)
    }

    fn waiter_mut(&mut self, id: LeaseId) -> Option<&mut Seat> {
        self.queue.iter_mut().find(|seat| seat.id == id)
    }

    /// As what a lease id holds or waits, if it does.
    pub(crate) fn mode_of(&self, id: LeaseId) -> Option<Mode> {
        let held = self.holders.iter().map(|lease| &lease.seat);
        held.chain(&self.queue).find(|seat| seat.id == id).map(|seat| seat.mode)
    }

    fn other_kind(&self, mode: Mode) -> Option<Mode> {
        let held = self.holders.iter().map(|lease| lease.seat.mode);
        let mut modes = held.chain(self.queue.iter().map(|seat| seat.mode));
        modes.find(|other| !mode.same_kind(*other))
    }

    fn has_room(&self, mode: Mode, now: Moment) -> bool {
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

    /// Remembers how a lease ended; says so if anything is bound to it.
    fn end(
        &mut self,
        lease: Lease,
        how: Predecessor,
        at: Moment,
        remark: Option<Arc<str>>,
    ) -> Option<Effect> {
        let ended = lease.bound.then_some(Effect::Ended { id: lease.seat.id });
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

impl Seat {
    fn new(claim: &Claim, session: SessionId, now: Moment) -> Self {
        Self {
            id: claim.ticket.id,
            mode: claim.ticket.mode,
            owner: claim.owner.clone(),
            ttl: claim.ttl,
            delay: claim.lock_delay,
            meta: claim.meta.clone(),
            session,
            since: now,
            expires: now.after(claim.ttl),
        }
    }

    /// When it expired, given that it did. A session that is gone may not say
    /// when; then it is now, so that no lock delay is cut short.
    fn ended(&self, now: Moment) -> Moment {
        if self.expires < self.since { now } else { self.expires }
    }

    fn queued(&self, now: Moment) -> Queued {
        let label = Arc::from(self.owner.label());
        Queued { label, mode: self.mode, waiting_for: Some(now.since(self.since)) }
    }
}

impl Lease {
    fn is(&self, target: Target) -> bool {
        match target {
            Target::Fence(fence) => self.fence == fence,
            Target::Lease(id) => self.seat.id == id,
            Target::All => true,
        }
    }

    /// What the next one is told. Who has not seen its own grant has not heard
    /// how the one before ended.
    fn ends_as(&self, ending: &Ending) -> Predecessor {
        match self.predecessor {
            _ if ending.cut_off => Predecessor::Expired,
            before if ending.unseen && before != Predecessor::None => before,
            _ => Predecessor::Released,
        }
    }

    fn granted(&self, now: Moment) -> Answer {
        let ttl = self.seat.expires.since(now);
        Answer::Granted { fence: self.fence, ttl, predecessor: self.predecessor }
    }

    fn holder(&self, now: Moment) -> Holder {
        let mut holder = Holder::new(self.seat.owner.label());
        holder.fence = Some(self.fence);
        holder.held_for = Some(now.since(self.seat.since));
        holder.time_left = Some(self.seat.expires.since(now));
        holder
    }

    fn held(&self, now: Moment) -> Held {
        Held {
            label: Arc::from(self.seat.owner.label()),
            mode: self.seat.mode,
            fence: Some(self.fence),
            held_for: Some(now.since(self.seat.since)),
            time_left: Some(self.seat.expires.since(now)),
            meta: self.seat.meta.clone(),
        }
    }
}

impl Ended {
    fn shown(&self, now: Moment) -> Last {
        Last {
            label: Arc::from(self.owner.label()),
            fence: self.fence,
            ended: self.how,
            ago: now.since(self.at),
            remark: self.remark.clone(),
        }
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

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", test))]
mod sessions;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sole;
#[cfg(test)]
mod tests;
