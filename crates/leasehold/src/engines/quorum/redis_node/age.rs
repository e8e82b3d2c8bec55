//! The age of a server, in its own count.

use std::time::Duration;

/// A server that has run for this many seconds, as it counts them, has certainly
/// run for that long: it takes the difference of two clocks without fractions.
pub(super) fn age_after(span: Duration) -> u64 {
    if span.is_zero() { 0 } else { span.as_secs() + u64::from(span.subsec_nanos() > 0) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that started at 0.95 says 60 at 60.0, and is 59.05 old.
    #[test]
    fn a_node_that_says_it_is_old_enough_is_old_enough() {
        let after = |millis| age_after(Duration::from_millis(millis));
        assert_eq!([after(2000), after(2500), after(60_000)], [3, 4, 61]);
        assert_eq!(after(0), 0, "for nodes that never restart");
    }
}
