//! The read-write lock: many readers or one writer.

use super::request_builder::{Lock, RequestBuilder, options};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::guard::Guard;
use crate::locks::Locks;

/// A lock that many readers or one writer can have.
///
/// Whoever comes first is served first: a stream of readers does not starve a
/// writer, because readers that come after it wait behind it.
///
/// A write guard can become a read guard without letting go
/// ([`Guard::convert`]). The other way is refused: two readers that both want to
/// write would wait for each other for ever.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Mode;
///
/// let catalogue = locks.rwlock("catalogue");
/// let one = catalogue.read().await?;
/// let two = catalogue.read().await?;
/// assert!(catalogue.try_write().await?.is_none());
/// drop((one, two));
///
/// let mut guard = catalogue.write().await?;
/// guard.convert(Mode::Read).await?;
/// assert!(catalogue.try_read().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    builder: RequestBuilder,
}

options!(RwLock);

impl Locks {
    /// A read-write lock on `name`: many readers or one writer.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock { builder: RequestBuilder::new(self, name.as_ref()) }
    }
}

impl RwLock {
    /// Waits until we may read; see [`Lock`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option, or if
    /// the name is in use as another kind of lock; the engine's error if it
    /// cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the queue is lost.
    ///
    /// # Fencing
    ///
    /// A reader's fence is larger than that of every writer before. A resource
    /// compares it and does not remember it.
    pub fn read(&self) -> Lock {
        self.builder.lock(Mode::Read)
    }

    /// Waits until we may write; errors as for [`RwLock::read`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind. Its place in the queue is lost.
    ///
    /// # Fencing
    ///
    /// The guard's fence is larger than that of every reader and writer before.
    pub fn write(&self) -> Lock {
        self.builder.lock(Mode::Write)
    }

    /// Reads if that is possible now, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::read`] but `TimedOut`.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        self.builder.try_lock(Mode::Read).await
    }

    /// Writes if that is possible now, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::read`] but `TimedOut`.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub async fn try_write(&self) -> Result<Option<Guard>> {
        self.builder.try_lock(Mode::Write).await
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
