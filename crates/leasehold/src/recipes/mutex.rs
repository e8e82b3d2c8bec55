//! The mutex: one holder at a time.

use super::request_builder::{Lock, RequestBuilder, options};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::guard::Guard;
use crate::locks::Locks;

/// A lock that one holder at a time can have.
///
/// A value of this type holds nothing yet: it is a name with options. Making
/// one costs no request, and clones are the same lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::Locks;
///
/// let locks = Locks::memory();
/// let order = locks.mutex("order/42").ttl(Duration::from_secs(10));
///
/// let guard = order.lock().await?;
/// assert!(order.try_lock().await?.is_none(), "held: an answer, not an error");
/// drop(guard);
///
/// let guard = order.lock().within(Duration::from_secs(3)).await?;
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    builder: RequestBuilder,
}

options!(Mutex);

impl Locks {
    /// A mutex on `name`: one holder at a time.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex { builder: RequestBuilder::new(self, name.as_ref()) }
    }
}

impl Mutex {
    /// Waits until the mutex is ours; see [`Lock`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option; the
    /// engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the queue is lost.
    ///
    /// # Fencing
    ///
    /// The guard's fence is larger than that of every holder before.
    pub fn lock(&self) -> Lock {
        self.builder.lock(Mode::Exclusive)
    }

    /// Takes the mutex if it is free, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name or option; the engine's error if it cannot be
    /// reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    ///
    /// # Fencing
    ///
    /// As for [`Mutex::lock`].
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.builder.try_lock(Mode::Exclusive).await
    }

    /// Locks, runs `work`, and releases. If the lease is lost meanwhile, the
    /// work is dropped at its next await point and the result is `Lost`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let fence = locks.mutex("report").run(async |guard| guard.fence()).await?;
    /// # assert!(fence > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`], and `Lost` if the lease ended before the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lease back.
    ///
    /// # Fencing
    ///
    /// As for [`Mutex::lock`].
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        self.lock().await?.run(work).await
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
