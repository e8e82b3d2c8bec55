//! How long things took: a histogram of durations.

use std::time::Duration;

use hdrhistogram::Histogram as Hdr;

/// Longer than anything that is measured, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

pub(crate) struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(Hdr::new_with_bounds(1, LONGEST, 3).expect("these bounds are valid"))
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, span: Duration) {
        self.0.saturating_record(u64::try_from(span.as_nanos()).unwrap_or(LONGEST));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // All have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share (0 to 1) did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        (1..=500).for_each(|n| one.add(Duration::from_micros(n)));
        (501..=1000).for_each(|n| two.add(Duration::from_micros(n)));
        one.merge(&two);
        let near = |share, micros: f64| {
            let got = one.quantile(share).as_secs_f64() * 1e6;
            assert!((got / micros - 1.0).abs() < 0.002, "{got} is not {micros}");
        };
        near(0.5, 500.0);
        near(0.999, 999.0);
        near(1.0, 1000.0);
        assert_eq!(one.count(), 1000);
    }
}
