//! The latch, for threads.

use std::time::Duration;

use super::call::block_on;
use crate::error::Result;

/// A latch that opens when it has been counted down to 0; see [`crate::Latch`].
///
/// ```
/// # use std::time::Duration;
/// # use leasehold::blocking::Locks;
/// let loaded = Locks::memory().latch("import/7/loaded");
/// loaded.set(1)?;
/// let report = std::thread::spawn({
///     let loaded = loaded.clone();
///     move || loaded.wait()
/// });
/// loaded.arrive("part 1")?;
/// report.join().unwrap()?;
///
/// loaded.set(1)?;
/// assert!(loaded.within(Duration::from_millis(20)).wait().unwrap_err().is_timed_out());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    latch: crate::Latch,
    limit: Option<Duration>,
}

impl super::Locks {
    /// The latch of this name; needs the cargo feature `records`.
    #[must_use]
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch { latch: self.as_async().latch(name), limit: None }
    }
}

impl Latch {
    /// Waits at most this long; then the error is `TimedOut`.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Closes the latch until it has been counted down this many times, unless it
    /// is closed already; whether it was open.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Latch::set`]; `Invalid` inside an async runtime.
    pub fn set(&self, count: u64) -> Result<bool> {
        block_on(self.latch.set(count))
    }

    /// Counts down by one; what is left.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Latch::count_down`]; `Invalid` inside an async runtime.
    pub fn count_down(&self) -> Result<u64> {
        block_on(self.latch.count_down())
    }

    /// Counts down by one for `id`, once, however often it is repeated; what is
    /// left.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Latch::arrive`]; `Invalid` inside an async runtime.
    pub fn arrive(&self, id: impl AsRef<str> + Send) -> Result<u64> {
        block_on(self.latch.arrive(id))
    }

    /// How often it has to be counted down until it is open: 0 if it is.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Latch::count`]; `Invalid` inside an async runtime.
    pub fn count(&self) -> Result<u64> {
        block_on(self.latch.count())
    }

    /// Waits until the latch is open.
    ///
    /// # Errors
    ///
    /// Those of [`crate::Latch::wait`]; `Invalid` inside an async runtime.
    pub fn wait(&self) -> Result<()> {
        let wait = self.latch.wait();
        let wait = match self.limit {
            Some(limit) => wait.within(limit),
            None => wait,
        };
        block_on(wait.into_future())
    }
}
