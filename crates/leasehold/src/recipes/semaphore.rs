//! The semaphore: a number of permits.

use super::request_builder::{Lock, RequestBuilder, options};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::guard::Guard;
use crate::locks::Locks;

/// A number of permits that holders share; each takes one or more.
///
/// The number is part of what is asked for: as long as someone holds or waits
/// for permits, another number is an error. Whoever comes first is served
/// first, so a claim for many permits is not starved by claims for few.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let downloads = locks.semaphore("downloads", 5);
/// let two = downloads.acquire(2).await?;
/// let three = downloads.acquire(3).await?;
/// assert!(downloads.try_acquire(1).await?.is_none());
/// drop(two);
/// assert!(downloads.try_acquire(1).await?.is_some());
/// # drop(three);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    builder: RequestBuilder,
    permits: u32,
}

options!(Semaphore);

impl Locks {
    /// A semaphore of `permits` on `name`.
    ///
    /// A name or number that is not valid is an error of the first call that
    /// uses it.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { builder: RequestBuilder::new(self, name.as_ref()), permits }
    }
}

impl Semaphore {
    /// Waits until `take` permits are ours; see [`Lock`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option, for
    /// more permits than there are, or if the name is in use with another number
    /// of permits or as another kind of lock; the engine's error if it cannot be
    /// reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the queue is lost.
    ///
    /// # Fencing
    ///
    /// Holders of permits are valid side by side: a resource cannot tell them
    /// apart by their fences, and must not try.
    pub fn acquire(&self, take: u32) -> Lock {
        self.builder.lock(self.mode(take))
    }

    /// Takes `take` permits if they are there, and never waits: contention is
    /// `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::acquire`] but `TimedOut`.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub async fn try_acquire(&self, take: u32) -> Result<Option<Guard>> {
        self.builder.try_lock(self.mode(take)).await
    }

    const fn mode(&self, take: u32) -> Mode {
        Mode::Permits { take, of: self.permits }
    }

    /// Who holds it and who waits.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn status(&self) -> Result<Status> {
        self.builder.status().await
    }
}
