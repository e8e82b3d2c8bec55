//! What was measured of one kind of work.

use std::time::Duration;

use super::work::Work;
use crate::histogram::Histogram;

pub(crate) struct Measure {
    pub(crate) work: Work,
    pub(crate) times: Histogram,
    pub(crate) elapsed: Duration,
}

impl Measure {
    /// How often per second; for a hand-over, how many would fit.
    pub(crate) fn per_second(&self) -> f64 {
        let count = f64::from(u32::try_from(self.times.count()).unwrap_or(u32::MAX));
        count / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Compared with the same work on the first engine.
    pub(crate) fn ratio(&self, first: &Self) -> f64 {
        let median = |measure: &Self| measure.times.quantile(0.5).as_secs_f64().max(1e-9);
        match self.work {
            Work::Throughput => self.per_second() / first.per_second().max(1e-9),
            _ => median(self) / median(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(work: Work, millis: u64) -> Measure {
        let mut times = Histogram::default();
        (0..10).for_each(|_| times.add(Duration::from_millis(millis)));
        Measure { work, times, elapsed: Duration::from_millis(10 * millis) }
    }

    #[test]
    fn ratios_compare_times_and_rates() {
        let ratio = |work| measure(work, 20).ratio(&measure(work, 10));
        assert!((ratio(Work::Alone) - 2.0).abs() < 0.01, "twice as long");
        assert!((ratio(Work::Throughput) - 0.5).abs() < 0.01, "half as many");
        assert!((measure(Work::Alone, 10).per_second() - 100.0).abs() < 0.1);
    }
}
