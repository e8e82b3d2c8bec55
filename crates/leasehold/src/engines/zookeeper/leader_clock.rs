//! The clock on the servers' wall, as far as we know it: values say until when
//! they are there, and every client must read that alike.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

/// How long what was read is believed.
const FRESH: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct LeaderClock(Mutex<Option<ClockReading>>);

#[derive(Clone, Copy, Debug)]
struct ClockReading {
    at: Moment,
    millis: i64,
}

impl LeaderClock {
    /// The leader's clock showed `millis` when something was written whose answer
    /// came at `at`: so at that moment it does not show less.
    pub(super) fn learn(&self, at: Moment, millis: i64) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *reading = Some(ClockReading { at, millis });
    }

    /// Another server may lead from now on, and its clock differ.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Milliseconds since 1970, or less, if it is known. The moment may be one
    /// before the reading.
    pub(super) fn shows(&self, moment: Moment) -> Option<i64> {
        let reading = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let since = moment.since(reading.at);
        let ahead = reading.at.since(moment);
        let shown = reading.millis.saturating_add(millis(since)).saturating_sub(millis(ahead));
        (since < FRESH).then_some(shown)
    }
}

pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_goes_on_until_it_is_old() {
        let (wall, start) = (LeaderClock::default(), Moment::default());
        assert_eq!(wall.shows(start), None);
        wall.learn(start, 1000);
        assert_eq!(wall.shows(start.after(Duration::from_secs(5))), Some(6000));
        assert_eq!(wall.shows(start.after(FRESH)), None);
        wall.learn(start.after(Duration::from_secs(2)), 3000);
        assert_eq!(wall.shows(start), Some(1000), "by the time when it was asked for");
        wall.forget();
        assert_eq!(wall.shows(start), None);
    }
}
