//! The semaphore, for threads.

use super::call::block_on;
use super::guard::Guard;
use super::patience::{attempts, limit, try_now, wait};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::recipes::request_builder::{Patience, RequestBuilder, options};

/// A number of permits that holders share; see [`crate::Semaphore`].
///
/// Permits are counted, so there is no re-entrant semaphore: taking twice takes
/// more.
///
/// ```
/// # use leasehold::blocking::Locks;
/// let downloads = Locks::memory().semaphore("downloads", 5);
/// let three = downloads.acquire(3)?;
/// assert!(downloads.try_acquire(3)?.is_none());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    builder: RequestBuilder,
    patience: Patience,
    permits: u32,
}

options!(Semaphore);
limit!(Semaphore);
attempts!(Semaphore);

impl Semaphore {
    pub(super) fn new(builder: RequestBuilder, permits: u32) -> Self {
        Self { patience: builder.patience(), builder, permits }
    }

    /// Waits until `take` permits are ours.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option, for
    /// more permits than there are, if the name is in use otherwise, or inside
    /// an async runtime; the engine's error if it cannot be reached.
    pub fn acquire(&self, take: u32) -> Result<Guard> {
        wait(&self.builder, self.patience, self.mode(take))
    }

    /// Takes `take` permits if they are there, and never waits: contention is
    /// `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::acquire`] but `TimedOut`.
    pub fn try_acquire(&self, take: u32) -> Result<Option<Guard>> {
        try_now(&self.builder, self.mode(take))
    }

    /// Who holds it and who waits.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name or inside an async runtime; the engine's error
    /// if it cannot be reached.
    pub fn status(&self) -> Result<Status> {
        block_on(self.builder.status())
    }

    const fn mode(&self, take: u32) -> Mode {
        Mode::Permits { take, of: self.permits }
    }
}
