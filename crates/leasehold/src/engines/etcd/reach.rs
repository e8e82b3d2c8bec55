//! How far a range goes. Servers count all keys of a range for every answer, so one
//! that goes to the end of a long list costs as much as the list.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::txn::end_of;

/// How many bytes the keys of one answer have had in common: those of the next answer
/// will, or a few less. Nothing depends on it but the cost.
#[derive(Debug, Default)]
pub(super) struct RangeReach(AtomicUsize);

impl RangeReach {
    /// Where a range from here on ends at first, before the end of all: a level above
    /// that of the last answer, or where it turned out to be too near, so many more.
    pub(super) fn end(&self, from: &[u8], end: &[u8], misses: u32) -> Vec<u8> {
        let common = self.0.load(Ordering::Relaxed).min(from.len());
        let fewer = 1_usize.checked_shl(misses).map_or(0, |step| common.saturating_sub(step));
        let near = end_of(&from[..fewer]);
        if fewer > 0 && near.as_slice() < end { near } else { end.to_vec() }
    }

    /// What a full answer began and ended with.
    pub(super) fn learn(&self, first: &[u8], last: &[u8]) {
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        self.0.store(common, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_behind_keys_like_those_before() {
        let reach = RangeReach::default();
        assert_eq!(reach.end(b"x/0100", b"x0", 0), b"x0", "nothing is known");
        reach.learn(b"x/0000", b"x/0099");
        assert_eq!(reach.end(b"x/0100", b"x0", 0), b"x/1");
        assert_eq!(reach.end(b"x/0100", b"x0", 1), b"x0");
        assert_eq!(reach.end(b"x/12", b"x0", 0), b"x/2");
        assert_eq!(reach.end(b"x/2", b"x0", 0), b"x0");
        assert_eq!(reach.end(b"x/12", b"x0", 99), b"x0");
        assert_eq!(reach.end(b"x/", b"x0", 0), b"x0", "a list of another kind");
    }
}
