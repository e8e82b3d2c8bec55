//! A hold: what this process knows of one ticket, from the first request on.
//!
//! Guard, keeper and waiting loop share it. It goes from waiting to held, into
//! jeopardy when a renewal stays unanswered and back, and once to its end.
//! What has ended stays ended, whatever late answers say.

mod facts;
mod timing;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Grant, LeaseId, Mode, OwnerId, Place, Predecessor, Ticket};
use crate::clock::{Clock, Moment};
use crate::engine::Loss;
use crate::mutant::{self, Mutant};
use crate::name::Name;

use self::facts::{Facts, Phase};
pub(crate) use self::timing::Timing;

/// How a lease stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Ours, and renewed in time.
    Held,
    /// Ours until its deadline, but the last renewal failed.
    Jeopardy,
    /// Not ours any more.
    Lost(Loss),
    /// Given back.
    Released,
}

/// What was agreed for a ticket, beside its ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) hold_at_least: Duration,
}

/// How a hold stood when it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Not granted yet, as far as we know.
    Asked,
    /// Ours.
    Held,
    /// Past its deadline, and nobody had noticed.
    Overdue,
    /// Lost or given back before.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) id: LeaseId,
    pub(crate) name: Name,
    /// Who may re-enter it, if anyone.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) terms: Terms,
    clock: Clock,
    facts: Mutex<Facts>,
    changed: Notify,
}

impl Hold {
    pub(crate) fn new(ticket: Ticket, owner: Option<OwnerId>, terms: Terms, clock: Clock) -> Self {
        let facts = Facts::new(ticket.mode, terms.ttl);
        let Ticket { id, name, .. } = ticket;
        Self { id, name, owner, terms, clock, facts: Mutex::new(facts), changed: Notify::new() }
    }

    /// Lease id, name and present mode.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { id: self.id, name: self.name.clone(), mode: self.mode() }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.facts().mode
    }

    /// A conversion is about to leave; tells the mode to convert from. Until it
    /// is settled this is the weaker of the two, because others may stand
    /// beside it as soon as the engine has heard.
    pub(crate) fn begin_conversion(&self, to: Mode) -> Mode {
        let mut facts = self.facts();
        let from = facts.before.unwrap_or(facts.mode);
        let lets_others_in = (from, to) == (Mode::Write, Mode::Read);
        if lets_others_in && !mutant::lives(Mutant::ConversionForgotten) {
            (facts.before, facts.mode) = (Some(from), to);
        }
        from
    }

    /// The conversion has had no effect, or was carried out: this is its mode.
    pub(crate) fn end_conversion(&self, mode: Mode) {
        let mut facts = self.facts();
        (facts.before, facts.mode) = (None, mode);
    }

    /// As what the engine may still have it, while a conversion is not settled.
    pub(crate) fn mode_before(&self) -> Option<Mode> {
        self.facts().before
    }

    /// How long it is asked to run.
    pub(crate) fn ttl(&self) -> Duration {
        self.facts().ttl
    }

    /// Makes it run for longer from the next renewal on; true if that is news.
    pub(crate) fn raise_ttl(&self, ttl: Duration) -> bool {
        let mut facts = self.facts();
        let news = ttl > facts.ttl;
        facts.ttl = facts.ttl.max(ttl);
        news
    }

    /// Takes one more share in it; false if it is not held any more, or the
    /// last share is on its way back.
    pub(crate) fn share(&self) -> bool {
        let mut facts = self.facts();
        let alive = facts.is_held() && facts.shares > 0 && self.clock.now() < facts.deadline;
        facts.shares += usize::from(alive);
        alive
    }

    /// Gives one share back; true if it was the last.
    pub(crate) fn unshare(&self) -> bool {
        let mut facts = self.facts();
        facts.shares = facts.shares.saturating_sub(1);
        facts.shares == 0
    }

    pub(crate) fn fence(&self) -> u64 {
        self.facts().fence
    }

    pub(crate) fn predecessor(&self) -> Predecessor {
        self.facts().predecessor
    }

    /// It has come to its user, who can see what became of the one before.
    pub(crate) fn show(&self) {
        self.facts().is_seen = true;
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.facts().is_seen
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.facts().deadline
    }

    /// When the last request left that the engine has confirmed.
    pub(crate) fn confirmed(&self) -> Moment {
        self.facts().confirmed
    }

    pub(crate) fn is_held(&self) -> bool {
        self.facts().is_held()
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.facts().phase, Phase::Lost(_) | Phase::Released)
    }

    /// How long it is certainly still ours.
    pub(crate) fn remaining(&self) -> Duration {
        let facts = self.facts();
        if facts.is_held() { facts.deadline.since(self.clock.now()) } else { Duration::ZERO }
    }

    /// How it stands, by the clock: a deadline that has passed is a loss, even
    /// if nobody has had the time to say so. No answer can move a deadline that
    /// has passed, so a loss once seen stays.
    pub(crate) fn standing(&self) -> Standing {
        let facts = self.facts();
        if facts.is_held() && self.clock.now() >= facts.deadline {
            return Standing::Lost(Loss::Expired);
        }
        match &facts.phase {
            Phase::Asked | Phase::Held => Standing::Held,
            Phase::Jeopardy => Standing::Jeopardy,
            Phase::Lost(loss) => Standing::Lost(loss.clone()),
            Phase::Released => Standing::Released,
        }
    }

    /// Resolves when the lease is not ours any more, or was released.
    pub(crate) async fn ended(&self) {
        self.until(|facts| matches!(facts.phase, Phase::Lost(_) | Phase::Released)).await;
    }

    /// Resolves when somebody has asked the holder to let go.
    pub(crate) async fn wanted(&self) {
        self.until(|facts| facts.wanted).await;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.facts().wanted
    }

    /// Somebody asks the holder to let go.
    pub(crate) fn want(&self) {
        self.change(|facts| facts.wanted = true);
    }

    /// Resolves when a queued ticket has something to look at: it was granted
    /// behind our back, or its place is gone.
    pub(crate) async fn stirred(&self) {
        self.until(|facts| facts.look || facts.phase != Phase::Asked).await;
        self.facts().look = false;
    }

    /// Waits for the turn to send a verb: one at a time per ticket, so that a
    /// release cannot overtake the claim it belongs to.
    pub(crate) async fn turn(&self) {
        while !self.try_turn() {
            self.until(|facts| !facts.verb_under_way).await;
        }
    }

    /// Takes the turn if no verb is under way.
    pub(crate) fn try_turn(&self) -> bool {
        let mut facts = self.facts();
        !std::mem::replace(&mut facts.verb_under_way, true)
    }

    /// Gives the turn back.
    pub(crate) fn end_turn(&self) {
        self.change(|facts| facts.verb_under_way = false);
    }

    /// Changes something that others may wait for.
    fn change(&self, how: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts();
        how(&mut facts);
        let is_watched = facts.is_watched;
        drop(facts);
        if is_watched {
            self.changed.notify_waiters();
        }
    }

    /// Wakes those who wait for a change.
    fn tell(&self, facts: &Facts) {
        if facts.is_watched {
            self.changed.notify_waiters();
        }
    }

    async fn until(&self, done: impl Fn(&Facts) -> bool + Send) {
        loop {
            let mut change = std::pin::pin!(self.changed.notified());
            change.as_mut().enable();
            if self.watch(&done) {
                return;
            }
            change.await;
        }
    }

    /// Whether it is so; if not, whoever changes something next tells.
    fn watch(&self, done: impl Fn(&Facts) -> bool) -> bool {
        let mut facts = self.facts();
        facts.is_watched = true;
        done(&facts)
    }

    /// The claim was granted: false if the deadline had passed before the
    /// answer came, or the hold has ended meanwhile.
    pub(crate) fn granted(&self, grant: &Grant, drift: Duration) -> bool {
        let mut facts = self.facts();
        if facts.phase != Phase::Asked {
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
        self.tell(&facts);
        true
    }

    /// The lease was handed over: it runs as long as the place would have, and
    /// a fixed one is renewed until its time is up. One that was handed to an
    /// earlier place of the same ticket may be somebody else's by now.
    pub(crate) fn handed_over(&self, fence: u64, predecessor: Predecessor) -> bool {
        let mut facts = self.facts();
        let now = self.clock.now();
        let stale = fence <= facts.floor && !mutant::lives(Mutant::StaleHandOver);
        // Without a place there is no telling how long it runs.
        let placed = facts.confirmed != Moment::default();
        if facts.phase != Phase::Asked || now >= facts.deadline || stale || !placed {
            return false;
        }
        if !self.terms.renewed {
            facts.ends = now.after(facts.ttl);
            // A server may keep a place for longer than was asked.
            facts.deadline = facts.deadline.min(facts.ends);
        }
        facts.hold(fence, predecessor, now);
        self.tell(&facts);
        true
    }

    /// A place in a queue was taken or kept.
    pub(crate) fn placed(&self, place: Place, drift: Duration) {
        let mut facts = self.facts();
        if facts.phase == Phase::Asked {
            facts.floor = facts.floor.max(place.floor);
            facts.confirm(place.sent_at, place.ttl, drift);
        }
    }

    /// Whether a place in the queue, of a request that left after the grant,
    /// says that this is held no more.
    pub(crate) fn is_undone_by(&self, place: Place) -> bool {
        let facts = self.facts();
        facts.is_held() && place.sent_at > facts.since
    }

    /// A renewal was confirmed.
    pub(crate) fn renewed(&self, sent_at: Moment, ttl: Duration, drift: Duration) {
        let mut facts = self.facts();
        if facts.is_held() && self.clock.now() < facts.deadline {
            facts.confirm(sent_at, ttl, drift);
            facts.phase = Phase::Held;
        }
    }

    /// A renewal failed; the deadline stands. True if that is news.
    pub(crate) fn jeopardize(&self) -> bool {
        let mut facts = self.facts();
        let news = facts.phase == Phase::Held;
        if news {
            facts.phase = Phase::Jeopardy;
        }
        news
    }

    /// The lease is not ours any more: true for whoever finds out first.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        let mut facts = self.facts();
        let held = facts.is_held();
        if held {
            facts.phase = Phase::Lost(loss);
            self.tell(&facts);
        }
        held
    }

    /// It is given back; says how it stood.
    pub(crate) fn give_back(&self) -> Before {
        let now = self.clock.now();
        let mut facts = self.facts();
        facts.given_back = facts.given_back.min(now);
        let before = match facts.phase {
            Phase::Asked => Before::Asked,
            Phase::Held | Phase::Jeopardy if now < facts.deadline => Before::Held,
            Phase::Held | Phase::Jeopardy => Before::Overdue,
            Phase::Lost(_) | Phase::Released => Before::Ended,
        };
        match before {
            Before::Asked | Before::Held => facts.phase = Phase::Released,
            Before::Overdue => facts.phase = Phase::Lost(Loss::Expired),
            Before::Ended => {}
        }
        self.tell(&facts);
        before
    }

    /// Wakes a waiting loop to look for itself.
    pub(crate) fn nudge(&self) {
        self.change(|facts| facts.look = true);
    }

    /// How much longer the name must stay closed after a release now.
    pub(crate) fn keep_closed(&self) -> Option<Duration> {
        if self.terms.hold_at_least.is_zero() {
            return None;
        }
        let ends = self.facts().since.after(self.terms.hold_at_least);
        Some(ends.since(self.clock.now())).filter(|left| !left.is_zero())
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
