//! Steps of a server's clock, seen from ours.

use std::time::Duration;

use crate::clock::Moment;

/// How far two readings may differ for other reasons than a step.
const NOISE: Duration = Duration::from_millis(10);
/// Clocks that are slewed run at most this much faster or slower: 1 in 1000.
const SLEW: u32 = 1000;

/// The last reading of the clock, and the last step seen.
#[derive(Debug, Default)]
pub(super) struct Steps {
    last: Option<Reading>,
    step: Option<(Moment, Duration)>,
}

/// The server's clock was at `stamp` microseconds some time between two
/// moments of ours.
#[derive(Clone, Copy, Debug)]
struct Reading {
    stamp: u64,
    sent_at: Moment,
    heard_at: Moment,
}

impl Steps {
    pub(super) fn observe(&mut self, stamp: u64, sent_at: Moment, heard_at: Moment) {
        let reading = Reading { stamp, sent_at, heard_at };
        // An answer that was overtaken says nothing new.
        if self.last.is_some_and(|last| last.sent_at > sent_at) {
            return;
        }
        if let Some(step) = self.last.and_then(|last| last.step_to(&reading)) {
            self.step = Some((heard_at, step));
        }
        self.last = Some(reading);
    }

    /// The size of a step that was seen less than `span` ago.
    pub(super) fn recent(&self, now: Moment, span: Duration) -> Option<Duration> {
        self.step.filter(|(at, _)| now < at.after(span)).map(|(_, step)| step)
    }
}

impl Reading {
    /// How far the server's clock went beyond, or stayed behind, what can have
    /// passed on ours.
    fn step_to(&self, next: &Self) -> Option<Duration> {
        let (least, most) = (next.sent_at.since(self.heard_at), next.heard_at.since(self.sent_at));
        let room = NOISE + most / SLEW;
        let passed = i128::from(next.stamp) - i128::from(self.stamp);
        let passed = Duration::from_micros(u64::try_from(passed.max(0)).unwrap_or(u64::MAX));
        let went_back = self.stamp.saturating_sub(next.stamp);
        let ahead = passed.saturating_sub(most);
        let behind = (least + Duration::from_micros(went_back)).saturating_sub(passed);
        Some(ahead.max(behind)).filter(|step| *step > room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Readings at (stamp, sent, heard), in milliseconds.
    fn last_step(readings: &[(u64, u64, u64)]) -> Option<Duration> {
        let mut steps = Steps::default();
        let at = |ms: u64| Moment::from_nanos(ms * 1_000_000);
        for (stamp, sent, heard) in readings {
            steps.observe(stamp * 1000, at(*sent), at(*heard));
        }
        steps.recent(at(readings.last()?.2), MS)
    }

    #[test]
    fn a_clock_that_runs_with_ours_has_no_step() {
        assert_eq!(last_step(&[(5000, 0, 1)]), None);
        assert_eq!(last_step(&[(5000, 0, 1), (6000, 1000, 1001), (7001, 2000, 2002)]), None);
        // Slow replies and an hour of slewing explain it.
        assert_eq!(last_step(&[(5000, 0, 1), (6400, 1000, 1500)]), None);
        assert_eq!(last_step(&[(5000, 0, 1), (3_608_000, 3_600_000, 3_600_001)]), None);
    }

    #[test]
    fn a_jump_in_either_direction_is_seen() {
        let ahead = last_step(&[(5000, 0, 1), (9000, 1000, 1001)]).unwrap();
        assert!(ahead > 2900 * MS && ahead < 3100 * MS, "{ahead:?}");
        let behind = last_step(&[(5000, 0, 1), (5100, 1000, 1001)]).unwrap();
        assert!(behind > 800 * MS && behind < 1000 * MS, "{behind:?}");
        let back = last_step(&[(5000, 0, 1), (2000, 1000, 1001)]).unwrap();
        assert!(back > 3900 * MS && back < 4100 * MS, "{back:?}");
    }

    #[test]
    fn a_step_is_remembered_for_a_while() {
        let mut steps = Steps::default();
        let at = |ms: u64| Moment::from_nanos(ms * 1_000_000);
        steps.observe(0, at(0), at(0));
        steps.observe(5_000_000, at(1), at(1));
        assert!(steps.recent(at(99), 100 * MS).is_some());
        assert!(steps.recent(at(102), 100 * MS).is_none());
    }
}
