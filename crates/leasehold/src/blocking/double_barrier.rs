//! The double barrier, for threads.

use super::call::block_on;
use crate::error::Result;
use crate::recipes::double_barrier::{DoubleBarrier, Enter, Inside, Leave};

impl super::Locks {
    /// The barrier of this name where `size` members begin and end together; see
    /// [`crate::Locks::double_barrier`].
    ///
    /// ```
    /// use leasehold::blocking::Locks;
    ///
    /// let import = Locks::memory().double_barrier("import", 2);
    /// let other = std::thread::spawn({
    ///     let import = import.clone();
    ///     move || import.enter().blocking()?.leave().blocking()
    /// });
    /// let inside = import.enter().blocking()?;
    /// println!("begins with the others of round {}", inside.round());
    /// inside.leave().blocking()?;
    /// other.join().unwrap()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn double_barrier(&self, name: impl AsRef<str>, size: usize) -> DoubleBarrier {
        self.as_async().double_barrier(name, size)
    }
}

impl Enter {
    /// Waits on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`DoubleBarrier::enter`]; `Invalid` inside an async runtime.
    pub fn blocking(self) -> Result<Inside> {
        block_on(self.into_future())
    }
}

impl Leave {
    /// Waits on this thread.
    ///
    /// # Errors
    ///
    /// Those of [`Inside::leave`]; `Invalid` inside an async runtime.
    pub fn blocking(self) -> Result<()> {
        block_on(self.into_future())
    }
}
