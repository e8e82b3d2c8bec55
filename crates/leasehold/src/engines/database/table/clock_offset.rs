//! The database's clock, as seen from ours.

use std::sync::atomic::{AtomicI64, Ordering};

use super::columns::micros;
use super::row::GOOD;
use crate::clock::{Clock, Moment};

/// How far the database's clock is ahead of ours, about: good enough to say
/// when a statement that is late has come too late, and for nothing else.
#[derive(Debug, Default)]
pub(super) struct ClockOffset(AtomicI64);

impl ClockOffset {
    pub(super) fn note(&self, theirs: Moment, ours: Moment) {
        self.0.store(micros(theirs) - micros(ours), Ordering::Relaxed);
    }

    /// When a statement that leaves now is too old, by the database's clock.
    pub(super) fn good_until(&self, clock: &Clock) -> i64 {
        micros(clock.now().after(GOOD)) + self.0.load(Ordering::Relaxed)
    }
}
