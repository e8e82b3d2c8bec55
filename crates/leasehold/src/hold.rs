//! A hold: what this process knows of one ticket, from the first request on.
//!
//! Guard, keeper and waiting loop share it. It goes from waiting to held, into
//! jeopardy when a renewal stays unanswered and back, and once to its end.
//! What has ended stays ended, whatever late answers say.

mod facts;
mod shared_facts;
mod standing;
mod terms;
mod timing;

use std::time::Duration;

use crate::claim::{Grant, LeaseId, Mode, OwnerId, Place, Predecessor, Refresh, Ticket};
use crate::clock::{Clock, Moment};
use crate::engine::Loss;
use crate::mutant::{self, Mutant};
use crate::name::Name;

use self::facts::{Facts, HoldPhase};
use self::shared_facts::SharedFacts;
pub(crate) use self::standing::PriorStanding;
pub use self::standing::Standing;
pub(crate) use self::terms::Terms;
pub(crate) use self::timing::Timing;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) id: LeaseId,
    pub(crate) name: Name,
    /// Who may re-enter it, if anyone.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) terms: Terms,
    clock: Clock,
    facts: SharedFacts,
}

impl Hold {
    pub(crate) fn new(ticket: Ticket, owner: Option<OwnerId>, terms: Terms, clock: Clock) -> Self {
        let facts = SharedFacts::new(Facts::new(ticket.mode, terms.ttl));
        let Ticket { id, name, .. } = ticket;
        Self { id, name, owner, terms, clock, facts }
    }

    /// Lease id, name and present mode.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { id: self.id, name: self.name.clone(), mode: self.mode() }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.facts.lock().mode
    }

    /// A conversion is about to leave; tells the mode to convert from. Until it
    /// is settled this is the weaker of the two, because others may stand
    /// beside it as soon as the engine has heard.
    pub(crate) fn begin_conversion(&self, to: Mode) -> Mode {
        let mut facts = self.facts.lock();
        let from = facts.before.unwrap_or(facts.mode);
        let lets_others_in = (from, to) == (Mode::Write, Mode::Read);
        if lets_others_in && !mutant::lives(Mutant::ConversionForgotten) {
            (facts.before, facts.mode) = (Some(from), to);
        }
        from
    }

    /// The conversion has had no effect, or was carried out: this is its mode.
    pub(crate) fn end_conversion(&self, mode: Mode) {
        let mut facts = self.facts.lock();
        (facts.before, facts.mode) = (None, mode);
    }

    /// As what the engine may still have it, while a conversion is not settled.
    pub(crate) fn mode_before(&self) -> Option<Mode> {
        self.facts.lock().before
    }

    /// How long it is asked to run.
    pub(crate) fn ttl(&self) -> Duration {
        self.facts.lock().ttl
    }

    /// Makes it run for longer from the next renewal on; true if that is news.
    pub(crate) fn raise_ttl(&self, ttl: Duration) -> bool {
        let mut facts = self.facts.lock();
        let news = ttl > facts.ttl;
        facts.ttl = facts.ttl.max(ttl);
        news
    }

    /// Takes one more share in it; false if it is not held any more, or the
    /// last share is on its way back.
    pub(crate) fn share(&self) -> bool {
        let mut facts = self.facts.lock();
        let alive = facts.is_held() && facts.shares > 0 && self.clock.now() < facts.deadline;
        facts.shares += usize::from(alive);
        alive
    }

    /// Gives one share back; true if it was the last.
    pub(crate) fn unshare(&self) -> bool {
        let mut facts = self.facts.lock();
        facts.shares = facts.shares.saturating_sub(1);
        facts.shares == 0
    }

    pub(crate) fn fence(&self) -> u64 {
        self.facts.lock().fence
    }

    pub(crate) fn predecessor(&self) -> Predecessor {
        self.facts.lock().predecessor
    }

    /// It has come to its user, who can see what became of the one before.
    pub(crate) fn show(&self) {
        self.facts.lock().is_seen = true;
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.facts.lock().is_seen
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.facts.lock().deadline
    }

    /// When the last request left that the engine has confirmed.
    pub(crate) fn confirmed(&self) -> Moment {
        self.facts.lock().confirmed
    }

    pub(crate) fn is_held(&self) -> bool {
        self.facts.lock().is_held()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.facts.lock().has_ended()
    }

    /// How long it is certainly still ours.
    pub(crate) fn remaining(&self) -> Duration {
        let facts = self.facts.lock();
        if facts.is_held() { facts.deadline.since(self.clock.now()) } else { Duration::ZERO }
    }

    /// How it stands, by the clock: a deadline that has passed is a loss, even
    /// if nobody has had the time to say so. No answer can move a deadline that
    /// has passed, so a loss once seen stays.
    pub(crate) fn standing(&self) -> Standing {
        let facts = self.facts.lock();
        if facts.is_held() && self.clock.now() >= facts.deadline {
            return Standing::Lost(Loss::Expired);
        }
        facts.phase.standing()
    }

    /// Resolves when the lease is not ours any more, or was released.
    pub(crate) async fn ended(&self) {
        self.facts.until(Facts::has_ended).await;
    }

    /// Resolves when it has got into jeopardy, out of it, or to its end, since it
    /// stood like this.
    #[cfg(feature = "records")]
    pub(crate) async fn turned(&self, from: &Standing) -> Standing {
        self.facts.until(|facts| facts.phase.standing() != *from).await;
        self.facts.lock().phase.standing()
    }

    /// Resolves when somebody has asked the holder to let go.
    pub(crate) async fn wanted(&self) {
        self.facts.until(|facts| facts.wanted).await;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.facts.lock().wanted
    }

    /// Somebody asks the holder to let go.
    pub(crate) fn want(&self) {
        self.facts.change(|facts| facts.wanted = true);
    }

    /// Resolves when a queued ticket has something to look at: it was granted
    /// behind our back, or its place is gone.
    pub(crate) async fn stirred(&self) {
        self.facts.until(|facts| facts.look || facts.phase != HoldPhase::Asked).await;
        self.facts.lock().look = false;
    }

    /// Waits for the turn to send a verb: one at a time per ticket, so that a
    /// release cannot overtake the claim it belongs to.
    pub(crate) async fn turn(&self) {
        while !self.try_turn() {
            self.facts.until(|facts| !facts.verb_under_way).await;
        }
    }

    /// Takes the turn if no verb is under way.
    pub(crate) fn try_turn(&self) -> bool {
        let mut facts = self.facts.lock();
        !std::mem::replace(&mut facts.verb_under_way, true)
    }

    /// Gives the turn back.
    pub(crate) fn end_turn(&self) {
        self.facts.change(|facts| facts.verb_under_way = false);
    }

    /// The claim was granted: false if the deadline had passed before the
    /// answer came, or the hold has ended meanwhile.
    pub(crate) fn granted(&self, grant: &Grant, drift: Duration) -> bool {
        let mut facts = self.facts.lock();
        if facts.phase != HoldPhase::Asked {
            return false;
        }
        if !self.terms.renewed {
            facts.ends = grant.sent_at.after(facts.ttl);
        }
        facts.confirm(grant.sent_at, grant.ttl, drift);
        let now = self.clock.now();
        if now >= facts.deadline {
            return false;
        }
        facts.hold(grant.fence, grant.predecessor, now);
        facts.asked = grant.sent_at;
        self.facts.tell(&facts);
        true
    }

    /// The lease was handed over: it runs as long as the place would have, and
    /// a fixed one is renewed until its time is up. One that was handed to an
    /// earlier place of the same ticket may be somebody else's by now.
    pub(crate) fn handed_over(&self, fence: u64, predecessor: Predecessor) -> bool {
        let mut facts = self.facts.lock();
        let now = self.clock.now();
        let stale = fence <= facts.floor && !mutant::lives(Mutant::StaleHandOver);
        // Without a place there is no telling how long it runs.
        let placed = facts.confirmed != Moment::default();
        if facts.phase != HoldPhase::Asked || now >= facts.deadline || stale || !placed {
            return false;
        }
        if !self.terms.renewed {
            facts.ends = now.after(facts.ttl);
            // A server may keep a place for longer than was asked.
            facts.deadline = facts.deadline.min(facts.ends);
        }
        facts.hold(fence, predecessor, now);
        facts.asked = facts.confirmed;
        self.facts.tell(&facts);
        true
    }

    /// A place in a queue was taken or kept.
    pub(crate) fn placed(&self, place: Place, drift: Duration) {
        let mut facts = self.facts.lock();
        if facts.phase == HoldPhase::Asked {
            facts.floor = facts.floor.max(place.floor);
            facts.confirm(place.sent_at, place.ttl, drift);
        }
    }

    /// Whether a place in the queue, of a request that left after the grant,
    /// says that this is held no more.
    pub(crate) fn is_undone_by(&self, place: Place) -> bool {
        let facts = self.facts.lock();
        facts.is_held() && place.sent_at > facts.since
    }

    /// A renewal was confirmed.
    pub(crate) fn renewed(&self, sent_at: Moment, ttl: Duration, drift: Duration) {
        let mut facts = self.facts.lock();
        if facts.is_held() && self.clock.now() < facts.deadline {
            facts.confirm(sent_at, ttl, drift);
            let news = facts.phase == HoldPhase::Jeopardy;
            facts.phase = HoldPhase::Held;
            if news {
                self.facts.tell(&facts);
            }
        }
    }

    /// A renewal failed; the deadline stands. True if that is news.
    pub(crate) fn jeopardize(&self) -> bool {
        let mut facts = self.facts.lock();
        let news = facts.phase == HoldPhase::Held;
        if news {
            facts.phase = HoldPhase::Jeopardy;
            self.facts.tell(&facts);
        }
        news
    }

    /// The lease is not ours any more, as was told then: true for whoever finds
    /// out first. What was asked for since then is another lease.
    pub(crate) fn lose(&self, loss: Loss, told: Moment) -> bool {
        let mut facts = self.facts.lock();
        let concerned = facts.asked <= told || mutant::lives(Mutant::OldNewsEndLater);
        let lost = facts.is_held() && concerned;
        if lost {
            facts.phase = HoldPhase::Lost(loss);
            self.facts.tell(&facts);
        }
        lost
    }

    /// It is given back; says how it stood.
    pub(crate) fn give_back(&self) -> PriorStanding {
        let now = self.clock.now();
        let mut facts = self.facts.lock();
        facts.given_back = facts.given_back.min(now);
        let before = match facts.phase {
            HoldPhase::Asked => PriorStanding::Asked,
            HoldPhase::Held | HoldPhase::Jeopardy if now < facts.deadline => PriorStanding::Held,
            HoldPhase::Held | HoldPhase::Jeopardy => PriorStanding::Overdue,
            HoldPhase::Lost(_) | HoldPhase::Released => PriorStanding::Ended,
        };
        match before {
            PriorStanding::Asked | PriorStanding::Held => facts.phase = HoldPhase::Released,
            PriorStanding::Overdue => facts.phase = HoldPhase::Lost(Loss::Expired),
            PriorStanding::Ended => {}
        }
        self.facts.tell(&facts);
        before
    }

    /// Wakes a waiting loop to look for itself.
    pub(crate) fn nudge(&self) {
        self.facts.change(|facts| facts.look = true);
    }

    /// When the longest allowed hold is over.
    pub(crate) fn must_end_at(&self) -> Moment {
        self.facts.lock().must_end_at(&self.terms)
    }

    /// When a fixed lease ends that is to run for `ttl` from now.
    pub(crate) fn end_after(&self, ttl: Duration) -> Moment {
        self.facts.lock().ends.max(self.clock.now().after(ttl))
    }

    /// The engine has agreed to that end.
    pub(crate) fn extend(&self, ends: Moment) {
        if !self.terms.renewed {
            self.facts.lock().ends = ends;
        }
    }

    /// When the engine has surely forgotten it, if nobody tells it to.
    pub(crate) fn forgotten_at(&self) -> Moment {
        self.facts.lock().forgotten_at(&self.terms, self.clock.now())
    }

    /// What to ask the engine to keep it alive: a fixed lease for what is left
    /// of its time.
    pub(crate) fn refresh(&self) -> Refresh {
        let ttl = self.facts.lock().ttl_left(self.clock.now());
        self.refresh_for(ttl)
    }

    /// What to ask the engine to keep it alive for `ttl`.
    pub(crate) fn refresh_for(&self, ttl: Duration) -> Refresh {
        let mut refresh = Refresh::new(self.ticket(), ttl);
        refresh.lock_delay = self.terms.lock_delay;
        refresh.renewed = self.terms.renewed;
        refresh
    }

    /// What the schedule has to know.
    pub(crate) fn timing(&self) -> Timing {
        self.facts.lock().timing(&self.terms)
    }

    /// When to call it lost if nothing is confirmed.
    pub(crate) fn ends_at(&self) -> Moment {
        self.facts.lock().ends_at(&self.terms)
    }

    /// When it was granted.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn since(&self) -> Moment {
        self.facts.lock().since
    }

    /// How long it has been held, or was until it was given back.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn held_for(&self) -> Duration {
        self.facts.lock().held_for(self.clock.now())
    }

    pub(crate) fn due(&self) -> Moment {
        self.facts.lock().due
    }

    /// Its renewal is due and waits to leave; since when, if that is news.
    pub(crate) fn queue_renewal(&self) -> Option<Moment> {
        let mut facts = self.facts.lock();
        let due = facts.due;
        facts.renewal_waits.replace(due).is_none().then_some(due)
    }

    /// Its renewal leaves; since when that was due. `None` if there is nothing to
    /// renew any more, or another verb is under way.
    pub(crate) fn begin_renewal(&self) -> Option<Moment> {
        let mut facts = self.facts.lock();
        let due = facts.renewal_waits.take();
        let may_leave = due.is_some() && !facts.has_ended() && !facts.verb_under_way;
        facts.verb_under_way |= may_leave;
        due.filter(|_| may_leave)
    }

    /// Is to be looked at then; false if it has ended.
    pub(crate) fn set_due(&self, due: Moment) -> bool {
        let mut facts = self.facts.lock();
        let alive = !facts.has_ended();
        if alive {
            facts.due = due;
        }
        alive
    }

    /// How much longer the name must stay closed after a release now.
    pub(crate) fn keep_closed(&self) -> Option<Duration> {
        if self.terms.hold_at_least.is_zero() {
            return None;
        }
        let ends = self.facts.lock().since.after(self.terms.hold_at_least);
        Some(ends.since(self.clock.now())).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests;
