//! When a hold has to be looked at: its renewals, and its end.

use std::time::Duration;

use super::facts::Facts;
use super::terms::Terms;
use crate::claim::RENEW_FRACTION;
use crate::clock::Moment;

/// How late a timer of the runtime may fire.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// When a hold has to be looked at, and how long it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// When it is due for a renewal; never, while a verb is under way or the
    /// renewal waits to leave.
    pub(crate) renew_at: Moment,
    /// When to call it lost if nothing is confirmed.
    pub(crate) ends_at: Moment,
    /// Until when the engine keeps it for us if nothing is confirmed, a place in a
    /// queue as well, which is never called lost.
    pub(crate) lapses_at: Moment,
    /// How long it runs at a time, which may be less than was asked for.
    pub(crate) ttl: Duration,
}

impl Facts {
    /// When the longest allowed hold is over.
    pub(super) fn must_end_at(&self, terms: &Terms) -> Moment {
        terms.max_hold.map_or(Moment::NEVER, |most| self.since.after(most))
    }

    /// When the engine has surely forgotten it, if nobody tells it to: it may
    /// have been extended beyond its ttl.
    pub(super) fn forgotten_at(&self, terms: &Terms, now: Moment) -> Moment {
        let told = self.confirmed.after(self.told);
        now.after(self.ttl).max(told).after(terms.lock_delay)
    }

    /// How long it may still be asked to run: a fixed lease for what is left of
    /// its time.
    pub(super) fn ttl_left(&self, now: Moment) -> Duration {
        if self.ends == Moment::NEVER { self.ttl } else { self.ttl.min(self.ends.since(now)) }
    }

    /// What the schedule has to know.
    pub(super) fn timing(&self, terms: &Terms) -> Timing {
        let asked = self.verb_under_way || self.renewal_waits.is_some();
        let renew_at = if asked { Moment::NEVER } else { self.renew_at(terms) };
        let ends_at = self.ends_at(terms);
        let lapses_at = ends_at.min(self.deadline);
        Timing { renew_at, ends_at, lapses_at, ttl: self.ttl.min(self.told) }
    }

    /// When its time to renew has come since the last confirmation; never
    /// for a fixed lease, unless the engine grants less at a time than was asked.
    fn renew_at(&self, terms: &Terms) -> Moment {
        let short = self.told.saturating_add(TIMER_SLACK) < self.ends.since(self.confirmed);
        if !terms.renewed && self.is_held() && !short {
            return Moment::NEVER;
        }
        self.confirmed.after(self.ttl.min(self.told) / RENEW_FRACTION)
    }

    /// When to call it lost if nothing is confirmed; a place in a queue just
    /// lapses. Early by what a timer may be late, so that the news is in time.
    pub(super) fn ends_at(&self, terms: &Terms) -> Moment {
        if !self.is_held() {
            return Moment::NEVER;
        }
        self.deadline.before(TIMER_SLACK).min(self.must_end_at(terms))
    }

    /// How long it has been held, or was until it was given back.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(super) fn held_for(&self, now: Moment) -> Duration {
        let until = if self.given_back == Moment::NEVER { now } else { self.given_back };
        until.since(self.since)
    }
}
