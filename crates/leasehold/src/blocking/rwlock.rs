//! The read-write lock, for threads.

use std::marker::PhantomData;

use super::bound::{Anywhere, Bound, ThisThread};
use super::call::block_on;
use super::guard::Guard;
use super::patience::{attempts, limit, try_now, wait};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::recipes::request_builder::{Patience, RequestBuilder, options};

/// A lock that many readers or one writer can have; see [`crate::RwLock`].
///
/// ```
/// # use leasehold::{Mode, blocking::Locks};
/// let catalogue = Locks::memory().rwlock("catalogue");
/// let (one, two) = (catalogue.read()?, catalogue.read()?);
/// assert!(catalogue.try_write()?.is_none());
/// drop((one, two));
///
/// let mut guard = catalogue.write()?;
/// guard.convert(Mode::Read)?;
/// assert!(catalogue.try_read()?.is_some());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct RwLock<K = Anywhere> {
    builder: RequestBuilder,
    patience: Patience,
    bound: PhantomData<fn() -> K>,
}

options!(RwLock<K>, K);
limit!(RwLock<K>, K);
attempts!(RwLock<K>, K);

impl RwLock {
    pub(super) fn new(builder: RequestBuilder) -> Self {
        Self { patience: builder.patience(), builder, bound: PhantomData }
    }

    /// Lets a thread enter again while it is in: a writer as writer or reader,
    /// a reader as reader. Its guards cannot leave the thread, and the lease
    /// ends with the last of them.
    #[must_use]
    pub fn reentrant(self) -> RwLock<ThisThread> {
        RwLock { builder: self.builder, patience: self.patience, bound: PhantomData }
    }
}

impl<K> Clone for RwLock<K> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone(), ..*self }
    }
}

impl<K: Bound> RwLock<K> {
    /// Waits until we may read.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option, if the
    /// name is in use as another kind of lock, or inside an async runtime; the
    /// engine's error if it cannot be reached.
    pub fn read(&self) -> Result<Guard<K>> {
        wait(&self.builder, self.patience, Mode::Read)
    }

    /// Waits until we may write.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::read`]; `Invalid` too for a thread that may re-enter
    /// and reads: it would wait for itself.
    pub fn write(&self) -> Result<Guard<K>> {
        wait(&self.builder, self.patience, Mode::Write)
    }

    /// Reads if that is possible now, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::read`] but `TimedOut`.
    pub fn try_read(&self) -> Result<Option<Guard<K>>> {
        try_now(&self.builder, Mode::Read)
    }

    /// Writes if that is possible now, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::write`] but `TimedOut`.
    pub fn try_write(&self) -> Result<Option<Guard<K>>> {
        try_now(&self.builder, Mode::Write)
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
}
