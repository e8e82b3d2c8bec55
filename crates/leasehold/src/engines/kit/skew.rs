//! How fast a server answers, and whether its clock goes as ours does.

use std::time::Duration;

use crate::clock::wall_micros;
use crate::engine::{Finding, Severity};

/// A shorter one fires on a busy machine, and what it cuts off is unknown.
const SHORT: Duration = Duration::from_millis(500);
/// How far a server's clock may be from ours before somebody should know.
const SKEW: Duration = Duration::from_secs(1);

/// What was seen in a row of looks.
pub(in crate::engines) struct SkewCheck {
    timeout: Duration,
    longest: Duration,
    skews: Vec<i128>,
}

impl SkewCheck {
    /// How often to look.
    pub(in crate::engines) const LOOKS: usize = 20;

    pub(in crate::engines) const fn new(timeout: Duration) -> Self {
        Self { timeout, longest: Duration::ZERO, skews: Vec::new() }
    }

    /// One answer: how long it took, and the server's microseconds since 1970.
    pub(in crate::engines) fn add(&mut self, took: Duration, told: Option<u64>) {
        self.longest = self.longest.max(took);
        self.skews.extend(told.map(|told| i128::from(told) - i128::from(wall_micros())));
    }

    pub(in crate::engines) fn findings(&self) -> Vec<Finding> {
        let (first, last) = (self.skews.first().copied(), self.skews.last().copied());
        let step = first.zip(last).map_or(0, |(first, last)| (last - first).unsigned_abs());
        let all = [
            short(self.timeout),
            slow(self.longest, self.timeout),
            skewed(first),
            stepped(step, self.longest),
        ];
        all.into_iter().flatten().collect()
    }
}

fn short(timeout: Duration) -> Option<Finding> {
    (timeout < SHORT).then(|| {
        Finding::new(
            Severity::Warning,
            format!("the time-out of {timeout:?} fires on a busy machine"),
            "leave out ?timeout=, or set it to 500ms or more",
        )
    })
}

fn slow(longest: Duration, timeout: Duration) -> Option<Finding> {
    (longest > timeout / 4).then(|| {
        Finding::new(
            Severity::Warning,
            format!("an answer took {longest:?} of the {timeout:?} it may take"),
            "look for slow commands in the server and a loaded network; raise ?timeout=",
        )
    })
}

fn skewed(skew: Option<i128>) -> Option<Finding> {
    let off = Duration::from_micros(u64::try_from(skew?.unsigned_abs()).unwrap_or(u64::MAX));
    (off > SKEW).then(|| {
        Finding::new(
            Severity::Note,
            format!("the server's clock is {off:?} off ours; leases do not mind, fences may"),
            "keep the clocks of all servers in step: a promoted one must not be behind",
        )
    })
}

fn stepped(step: u128, longest: Duration) -> Option<Finding> {
    (step > longest.as_micros() + 50_000).then(|| {
        Finding::new(
            Severity::Danger,
            format!("the server's clock stepped by {} ms while we looked", step / 1000),
            "slew the clock instead (chrony, ntpd): a step ends leases early or keeps them too long",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_time_outs_are_judged() {
        let second = Duration::from_secs(1);
        assert!(slow(second, 2 * second).is_some() && slow(second / 10, 2 * second).is_none());
        assert!(skewed(Some(-5_000_000)).is_some() && skewed(Some(5)).is_none());
        assert!(stepped(3_600_000_000, second).is_some() && stepped(10, second).is_none());
        assert!(short(second / 10).is_some() && short(2 * second).is_none());
    }

    #[test]
    fn a_server_in_step_has_nothing_to_say() {
        let mut skew = SkewCheck::new(Duration::from_secs(2));
        skew.add(Duration::from_millis(1), Some(wall_micros()));
        skew.add(Duration::from_millis(1), None);
        assert!(skew.findings().is_empty());
    }
}
