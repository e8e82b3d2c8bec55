//! A value as it lies in a node: until when it is there, and itself.
//!
//! A value that is removed, or whose time is up, leaves a mark in its node for a
//! while. A node that is made anew counts its versions from zero again, and a
//! write that expects version 0 must not meet another value than it has seen.

use super::wire::{Stat, version};
use crate::engines::consensus::StoredValue;

/// How long a mark stays: longer than a client takes from its look to its write.
pub(super) const GRACE_MILLIS: i64 = 30_000;
/// In a stamp, beside the version: the value goes with a session.
const BOUND: i64 = 1 << 32;

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Until when, in milliseconds since 1970: 0 for ever, negative for a mark
    /// that was left then.
    pub(super) until: i64,
    pub(super) bytes: Vec<u8>,
    pub(super) stat: Stat,
}

impl Stored {
    /// Whatever others have written is a value.
    pub(super) fn read(bytes: Vec<u8>, stat: Stat) -> Self {
        match bytes.split_first_chunk::<8>() {
            Some((until, rest)) => {
                Self { until: i64::from_be_bytes(*until), bytes: rest.to_vec(), stat }
            }
            None => Self { until: 0, bytes, stat },
        }
    }

    /// The same where nothing lies beside the value.
    pub(super) const fn raw(bytes: Vec<u8>, stat: Stat) -> Self {
        Self { until: 0, bytes, stat }
    }

    pub(super) const fn is_mark(&self) -> bool {
        self.until < 0
    }

    /// Whether it needs a clock to tell if it is there.
    pub(super) const fn is_timed(&self) -> bool {
        self.until > 0
    }

    pub(super) const fn is_there(&self, now: i64) -> bool {
        self.until == 0 || self.until > now
    }

    /// Whether nobody can mean the node any more.
    pub(super) const fn is_old_mark(&self, now: i64) -> bool {
        self.is_mark() && now.saturating_add(self.until) > GRACE_MILLIS
    }

    pub(super) fn value(self) -> StoredValue {
        let bound = if self.stat.owner == 0 { 0 } else { BOUND };
        let stamp = i64::from(self.stat.version as u32) | bound;
        StoredValue { bytes: self.bytes, version: version(self.stat.changed), stamp }
    }
}

/// The version in a stamp, and whether the value went with a session.
pub(super) const fn stamped(stamp: i64) -> (i32, bool) {
    (stamp as u32 as i32, stamp & BOUND != 0)
}

/// The bytes of a value that is there until then.
pub(super) fn packed(until: i64, bytes: &[u8]) -> Vec<u8> {
    [&until.to_be_bytes(), bytes].concat()
}

/// The bytes of a mark that is left now.
pub(super) fn mark(now: i64) -> Vec<u8> {
    packed(now.max(1).saturating_neg(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: Vec<u8>) -> Stored {
        Stored::read(bytes, Stat { version: -3, owner: 9, ..Stat::default() })
    }

    #[test]
    fn values_have_their_time_and_marks_have_had_it() {
        let (ever, timed, gone) = (packed(0, b"a"), packed(50, b"a"), mark(50));
        assert!(stored(ever.clone()).is_there(i64::MAX));
        assert!(stored(timed.clone()).is_there(49) && !stored(timed).is_there(50));
        assert!(!stored(gone.clone()).is_there(0) && stored(gone.clone()).is_mark());
        assert!(!stored(gone.clone()).is_old_mark(50 + GRACE_MILLIS));
        assert!(stored(gone).is_old_mark(51 + GRACE_MILLIS));
        assert_eq!(stored(ever).value().bytes, b"a");
        assert_eq!(stored(b"abc".to_vec()).bytes, b"abc");
        let raw = Stored::raw(packed(-1, b"a"), Stat::default());
        assert!(raw.is_there(i64::MAX) && !raw.is_mark());
        assert_eq!(raw.value().bytes, packed(-1, b"a"));
    }

    #[test]
    fn stamps_come_back() {
        assert_eq!(stamped(stored(vec![]).value().stamp), (-3, true));
        let free = Stored { stat: Stat::default(), ..stored(vec![]) };
        assert_eq!(stamped(free.value().stamp), (0, false));
    }
}
