//! The counter, for threads.

use std::time::Duration;

use super::call::block_on;
use crate::error::Result;
use crate::recipes::counter::Updated;

/// A number that everybody may read and change; see [`crate::Counter`].
///
/// ```
/// # use leasehold::blocking::Locks;
/// let seats = Locks::memory().counter("show/42/seats");
/// assert_eq!(seats.add(100)?, 100);
/// assert_eq!(seats.update(|seats| seats / 2)?.value, 50);
/// assert_eq!(seats.get()?, 50);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Counter(crate::Counter);

impl super::Locks {
    /// The counter of this name; needs the cargo feature `records`.
    #[must_use]
    pub fn counter(&self, name: impl AsRef<str>) -> Counter {
        Counter(self.as_async().counter(name))
    }
}

impl Counter {
    /// After how many lost races [`Counter::update`] takes the mutex of the same
    /// name: 8 unless set.
    #[must_use]
    pub fn promote_after(self, losses: u32) -> Self {
        Self(self.0.promote_after(losses))
    }

    /// How often [`Counter::update`] tries in all: 64 times unless set.
    #[must_use]
    pub fn attempts(self, count: u32) -> Self {
        Self(self.0.attempts(count))
    }

    /// How long [`Counter::update`] may wait for the mutex.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self(self.0.within(limit))
    }

    /// The number; 0 if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Counter::get`]; `Invalid` inside an async runtime.
    pub fn get(&self) -> Result<i64> {
        block_on(self.0.get())
    }

    /// Adds to the number, and returns the new one.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Counter::add`]; `Invalid` inside an async runtime.
    pub fn add(&self, amount: i64) -> Result<i64> {
        block_on(self.0.add(amount))
    }

    /// Reads, changes, and writes back if nobody else was faster; see
    /// [`crate::Counter::update`].
    ///
    /// # Errors
    ///
    /// Those of [`crate::Counter::update`]; `Invalid` inside an async runtime.
    pub fn update(&self, change: impl FnMut(i64) -> i64 + Send) -> Result<Updated> {
        block_on(self.0.update(change))
    }
}
