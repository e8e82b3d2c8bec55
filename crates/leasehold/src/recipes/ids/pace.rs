//! The pace: how fast ids go, and so how many to keep ahead.

use std::time::Duration;

use crate::clock::Moment;

/// A burst counts as if it had taken this long, or a few ids within a
/// microsecond would call for millions.
const SHORTEST: Duration = Duration::from_secs(1);

/// The rate of use, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// The fewest and the most ids of one fill.
    pub(super) step: u64,
    pub(super) step_max: u64,
    /// How long what is at hand shall last at least.
    pub(super) horizon: Duration,
    /// Ids a second.
    rate: f64,
    since: Moment,
    taken: u64,
}

impl Pace {
    pub(super) const fn new(step: u64, step_max: u64, horizon: Duration, now: Moment) -> Self {
        Self { step, step_max, horizon, rate: 0.0, since: now, taken: 0 }
    }

    /// So many were taken until now, all together.
    pub(super) fn observe(&mut self, now: Moment, taken: u64) {
        let span = now.since(self.since).max(SHORTEST);
        self.rate = taken.saturating_sub(self.taken) as f64 / span.as_secs_f64();
        (self.since, self.taken) = (now, taken);
    }

    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// With so few left it is time for the next fill.
    pub(super) fn low(&self) -> u64 {
        self.lasting(self.horizon).max(self.step / 2)
    }

    /// How many to fetch, with so many left.
    pub(super) fn want(&self, left: u64) -> u64 {
        // What is beyond the horizon is the time to the next fill.
        let spare = (self.horizon / 4).max(SHORTEST);
        let goal = self.lasting(self.horizon + spare);
        goal.saturating_sub(left).clamp(self.step, self.step_max)
    }

    fn lasting(&self, span: Duration) -> u64 {
        (self.rate * span.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace::new(1_000, 100_000_000, Duration::from_secs(60), Moment::default())
    }

    /// Runs at `rate` until the next fill is due; how much that fetches, and
    /// how long after the one before.
    fn refill(pace: &mut Pace, left: &mut u64, rate: u64) -> (u64, Duration) {
        let use_up = left.saturating_sub(pace.low()).max(1);
        let span = Duration::from_secs_f64(use_up as f64 / rate as f64);
        *left -= use_up;
        pace.observe(pace.since.after(span), pace.taken + use_up);
        let want = pace.want(*left);
        *left += want;
        (want, span)
    }

    fn run(pace: &mut Pace, left: &mut u64, rate: u64, fills: u32) -> (u64, Duration) {
        (0..fills).map(|_| refill(pace, left, rate)).last().unwrap()
    }

    #[test]
    fn a_fill_is_needed_no_more_than_once_a_second_and_soon() {
        for rate in [1, 100, 10_000, 1_000_000] {
            let (mut pace, mut left) = (pace(), 1_000);
            let spans: Vec<_> = (0..8).map(|_| refill(&mut pace, &mut left, rate).1).collect();
            assert!(spans[5..].iter().all(|span| span.as_secs() >= 1), "{rate}: {spans:?}");
        }
    }

    #[test]
    fn the_step_follows_the_rate_up_and_down() {
        let (mut pace, mut left) = (pace(), 1_000);
        let (busy, _) = run(&mut pace, &mut left, 1_000_000, 7);
        assert!((10_000_000..=100_000_000).contains(&busy), "{busy}");
        let (idle, _) = run(&mut pace, &mut left, 10, 3);
        assert_eq!(idle, 1_000);
    }

    #[test]
    fn what_is_left_lasts_for_the_horizon() {
        let (mut pace, mut left) = (pace(), 1_000);
        run(&mut pace, &mut left, 5_000, 6);
        assert!(pace.low() >= 5_000 * 59, "{}", pace.low());
    }
}
