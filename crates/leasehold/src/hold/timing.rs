//! When a hold has to be looked at: its renewals, and its end.

use std::time::Duration;

use super::Hold;
use super::facts::{Facts, Phase};
use crate::claim::{RENEW_FRACTION, Refresh};
use crate::clock::Moment;

/// How late a timer of the runtime may fire.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// When a hold has to be looked at, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// When it is due for a renewal; never, while a verb is under way.
    pub(crate) renew_at: Moment,
    /// When to call it lost if nothing is confirmed.
    pub(crate) ends_at: Moment,
    /// How long it runs at a time, which may be less than was asked for.
    pub(crate) ttl: Duration,
}

impl Hold {
    /// When the longest allowed hold is over.
    pub(crate) fn must_end_at(&self) -> Moment {
        let since = self.facts().since;
        self.terms.max_hold.map_or(Moment::NEVER, |most| since.after(most))
    }

    /// When a fixed lease ends that is to run for `ttl` from now.
    pub(crate) fn end_after(&self, ttl: Duration) -> Moment {
        self.facts().ends.max(self.clock.now().after(ttl))
    }

    /// The engine has agreed to that end.
    pub(crate) fn extend(&self, ends: Moment) {
        if !self.terms.renewed {
            self.facts().ends = ends;
        }
    }

    /// When the engine has surely forgotten it, if nobody tells it to: it may
    /// have been extended beyond its ttl.
    pub(crate) fn forgotten_at(&self) -> Moment {
        let facts = self.facts();
        let ttl = self.clock.now().after(facts.ttl);
        let told = facts.confirmed.after(facts.told);
        ttl.max(told).after(self.terms.lock_delay)
    }

    /// What to ask the engine to keep it alive: a fixed lease for what is left
    /// of its time.
    pub(crate) fn refresh(&self) -> Refresh {
        let (ttl, ends) = {
            let facts = self.facts();
            (facts.ttl, facts.ends)
        };
        let left = if ends == Moment::NEVER { ttl } else { ends.since(self.clock.now()) };
        self.refresh_for(ttl.min(left))
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
        let facts = self.facts();
        let renew_at = if facts.verb_under_way { Moment::NEVER } else { self.renew_at(&facts) };
        Timing { renew_at, ends_at: self.ends_when(&facts), ttl: facts.ttl.min(facts.told) }
    }

    /// When its time to renew has come since the last confirmation; never
    /// for a fixed lease, unless the engine grants less at a time than was asked.
    fn renew_at(&self, facts: &Facts) -> Moment {
        let short = facts.told.saturating_add(TIMER_SLACK) < facts.ends.since(facts.confirmed);
        if !self.terms.renewed && facts.is_held() && !short {
            return Moment::NEVER;
        }
        facts.confirmed.after(facts.ttl.min(facts.told) / RENEW_FRACTION)
    }

    /// When to call it lost if nothing is confirmed; a place in a queue just
    /// lapses. Early by what a timer may be late, so that the news is in time.
    pub(crate) fn ends_at(&self) -> Moment {
        self.ends_when(&self.facts())
    }

    fn ends_when(&self, facts: &Facts) -> Moment {
        if !facts.is_held() {
            return Moment::NEVER;
        }
        let most = self.terms.max_hold.map_or(Moment::NEVER, |most| facts.since.after(most));
        facts.deadline.before(TIMER_SLACK).min(most)
    }

    /// When it was granted.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn since(&self) -> Moment {
        self.facts().since
    }

    /// How long it has been held, or was until it was given back.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn held_for(&self) -> Duration {
        let (since, until) = {
            let facts = self.facts();
            (facts.since, facts.given_back)
        };
        let until = if until == Moment::NEVER { self.clock.now() } else { until };
        until.since(since)
    }

    /// How late it is looked at now; `None` if that was to be at once.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn lag(&self, now: Moment) -> Option<Duration> {
        let due = self.due();
        (due != Moment::default()).then(|| now.since(due))
    }

    pub(crate) fn due(&self) -> Moment {
        self.facts().due
    }

    /// Is to be looked at then; false if it has ended.
    pub(crate) fn set_due(&self, due: Moment) -> bool {
        let mut facts = self.facts();
        let alive = !matches!(facts.phase, Phase::Lost(_) | Phase::Released);
        if alive {
            facts.due = due;
        }
        alive
    }
}
