//! The barrier, for threads.

use super::call::block_on;
use crate::error::Result;
use crate::recipes::barrier::{Barrier, WaitOpen};

impl super::Locks {
    /// The barrier of this name; see [`crate::Locks::barrier`].
    ///
    /// ```
    /// use leasehold::blocking::Locks;
    ///
    /// let migration = Locks::memory().barrier("migration");
    /// assert!(migration.blocking_close()?);
    /// assert!(migration.blocking_open()?);
    /// migration.wait().blocking()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn barrier(&self, name: impl AsRef<str>) -> Barrier {
        self.as_async().barrier(name)
    }
}

impl Barrier {
    /// Like `close`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::close`]; `Invalid` inside an async runtime.
    pub fn blocking_close(&self) -> Result<bool> {
        block_on(self.close())
    }

    /// Like `open`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::open`]; `Invalid` inside an async runtime.
    pub fn blocking_open(&self) -> Result<bool> {
        block_on(self.open())
    }

    /// Like `is_closed`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::is_closed`]; `Invalid` inside an async runtime.
    pub fn blocking_is_closed(&self) -> Result<bool> {
        block_on(self.is_closed())
    }
}

impl WaitOpen {
    /// Waits on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::wait`]; `Invalid` inside an async runtime.
    pub fn blocking(self) -> Result<()> {
        block_on(self.into_future())
    }
}
