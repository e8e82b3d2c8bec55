//! Renewals: how far apart they are, and how many were seen.

use std::fmt;
use std::iter::{once, repeat_n};
use std::time::Duration;

use leasehold::{Guard, Moment};
use leasehold_testkit::contest::Checked;

/// What users have who ask for nothing else: a renewal every ten seconds.
const TTL: Duration = Duration::from_secs(30);
/// For whoever cannot wait.
const QUICK_TTL: Duration = Duration::from_secs(3);

pub(crate) const fn ttl(quick: bool) -> Duration {
    if quick { QUICK_TTL } else { TTL }
}

/// As far as two renewals are apart at most, with some slack: one leaves a third of
/// the ttl after the one before, and up to a quarter of that late. A look of this
/// length sees a renewal of each, where nobody can count them.
pub(crate) fn longest(ttl: Duration) -> Duration {
    ttl / 3 + ttl / 12 + ttl / 24
}

/// A look at leases in parts: after each it is asked whether all were renewed. The
/// first is enough as a rule; the parts that follow are for those that were late.
pub(crate) fn parts(ttl: Duration) -> impl Iterator<Item = Duration> {
    once(ttl / 3 + ttl / 24).chain(repeat_n(ttl / 24, 3))
}

/// The renewals of these leases from some moment on, by how their deadlines move:
/// that is seen without a request, and without a part in what is measured.
pub(crate) struct Renewals<'a> {
    ttl: Duration,
    before: Vec<(&'a Guard, Moment)>,
}

impl fmt::Debug for Renewals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals").field("leases", &self.before.len()).finish()
    }
}

impl<'a> Renewals<'a> {
    pub(crate) fn of(guards: &'a [Guard], ttl: Duration) -> Self {
        Self { ttl, before: guards.iter().map(|guard| (guard, guard.deadline())).collect() }
    }

    /// Whether each was renewed since, but for those that are lost: they are counted
    /// as such.
    pub(crate) fn are_all_seen(&self) -> bool {
        self.unseen() == 0
    }

    fn unseen(&self) -> usize {
        let unseen = |(guard, before): &&(&Guard, Moment)| {
            guard.deadline() <= *before && guard.check().is_ok()
        };
        self.before.iter().filter(unseen).count()
    }

    /// How many there were.
    ///
    /// # Errors
    ///
    /// A lease had none: the look was not at what it is said to be at.
    pub(crate) fn count(&self) -> Checked<u64> {
        let (unseen, of) = (self.unseen(), self.before.len());
        if unseen > 0 {
            let why = "were not renewed while they were watched: there is nothing to report";
            return Err(format!("{unseen} of {of} leases {why}").into());
        }
        let moved = |(guard, before): &(&Guard, Moment)| guard.deadline().since(*before);
        Ok(self.before.iter().map(moved).map(|span| steps(span, self.ttl)).sum())
    }
}

/// By how many renewals a deadline moved so far: each moves it by a third of the ttl,
/// and by up to a quarter of that more.
fn steps(moved: Duration, ttl: Duration) -> u64 {
    if moved.is_zero() {
        return 0;
    }
    let steps = (moved + ttl / 12).as_nanos() / (ttl / 3).as_nanos();
    u64::try_from(steps).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{longest, parts, steps, ttl};

    #[test]
    fn a_look_is_longer_than_two_renewals_are_apart() {
        let ttl = ttl(false);
        let apart = ttl / 3 + ttl / 12;
        assert!(longest(ttl) > apart);
        assert!(parts(ttl).next() > Some(ttl / 3) && parts(ttl).sum::<Duration>() > apart);
    }

    #[test]
    fn renewals_are_counted_by_how_far_a_deadline_moved() {
        let moved = [0.0, 9.9, 10.0, 12.5, 20.0, 25.0].map(Duration::from_secs_f64);
        assert_eq!(moved.map(|it| steps(it, Duration::from_secs(30))), [0, 1, 1, 1, 2, 2]);
    }
}
