//! Renewals that are due and have not left yet.
//!
//! What is due at once leaves in portions, the most urgent first, so that no
//! request keeps an engine or home from everyone else for long.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Moment;
use crate::hold::{Hold, Timing};

/// How many renewals leave in one request.
pub(super) const PORTION: usize = 1000;
/// Moments this close, in bits of nanoseconds (17 ms), are one.
const GRAIN: u32 = 24;

/// Holds by the moment at which their renewals have to leave, whatever has become
/// of those before. Each of them knows that it is here, and is here once.
#[derive(Debug, Default)]
pub(super) struct RenewalQueue(BTreeMap<Moment, Vec<Arc<Hold>>>);

impl RenewalQueue {
    /// `hold` was due at `due`.
    pub(super) fn push(&mut self, hold: Arc<Hold>, due: Moment, now: Moment) {
        let latest = latest(&hold, due, now).nanos() >> GRAIN << GRAIN;
        self.0.entry(Moment::from_nanos(latest)).or_default().push(hold);
    }

    /// When the most urgent of them has to leave.
    pub(super) fn latest(&self) -> Option<Moment> {
        self.0.first_key_value().map(|(latest, _)| *latest)
    }

    /// The most urgent of them, so many at most.
    pub(super) fn portion(&mut self) -> Vec<Arc<Hold>> {
        let mut portion = Vec::new();
        while let Some(mut first) = self.0.first_entry() {
            let holds = first.get_mut();
            let rest = holds.len().saturating_sub(PORTION - portion.len());
            portion.extend(holds.drain(rest..));
            if rest > 0 {
                break;
            }
            first.remove();
        }
        portion
    }
}

/// A renewal may leave a quarter of its interval late, and not so late if little
/// time is left: two more must still fit before the lease or the place ends. For
/// a place that has ended there is no hurry.
fn latest(hold: &Hold, due: Moment, now: Moment) -> Moment {
    let Timing { lapses_at, ttl, .. } = hold.timing();
    let due = if due == Moment::default() { now } else { due };
    let late = due.after(ttl / 12);
    if lapses_at > now { late.min(lapses_at.before(ttl / 3)) } else { late }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::claim::{Mode, Place, Ticket};
    use crate::clock::Clock;
    use crate::hold::Terms;
    use crate::name::{Name, Namespace};

    const TTL: Duration = Duration::from_secs(30);

    /// In line, with a place that was confirmed so long ago.
    fn waiting(confirmed: Duration, now: Moment) -> Arc<Hold> {
        let no = Duration::ZERO;
        let terms =
            Terms { ttl: TTL, lock_delay: no, renewed: true, max_hold: None, hold_at_least: no };
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let ticket = Ticket::new(name, Mode::Exclusive);
        let hold = Arc::new(Hold::new(ticket, None, terms, Clock::System));
        hold.placed(Place::new(TTL, now.before(confirmed)), no);
        hold
    }

    /// When it leaves that was due at no moment: the connection is back, and all
    /// ask at once.
    fn leaves(confirmed: Duration) -> Duration {
        let now = Clock::System.now().after(10 * TTL);
        let mut queue = RenewalQueue::default();
        queue.push(waiting(confirmed, now), Moment::default(), now);
        queue.latest().unwrap_or(Moment::NEVER).since(now)
    }

    #[test]
    fn a_place_that_ends_soon_does_not_wait_like_one_that_was_just_kept() {
        assert!(leaves(Duration::ZERO) > TTL / 13);
        assert_eq!(leaves(TTL - TTL / 6), Duration::ZERO);
        assert!(leaves(2 * TTL) > TTL / 13, "there is no hurry for what has ended");
    }
}
