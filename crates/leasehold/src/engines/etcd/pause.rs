//! How long to wait before a stream is opened again.

use std::time::Duration;

use crate::clock::Clock;

const FIRST: Duration = Duration::from_millis(20);
/// Short beside the shortest ttl.
const LONGEST: Duration = Duration::from_millis(500);

/// Grows with every failure in a row.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Pause {
    /// Sleeps for half the time at least: many clients lose a server at once.
    pub(super) async fn sleep(&mut self, clock: &Clock) {
        let span = self.0.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        clock.sleep_until(clock.now().after(span)).await;
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
