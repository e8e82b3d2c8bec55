//! The mutex, for threads.

use std::marker::PhantomData;

use super::bound::{Anywhere, Bound, ThisThread};
use super::call::block_on;
use super::guard::Guard;
use super::patience::{attempts, limit, try_now, wait};
use crate::claim::Mode;
use crate::engine::Status;
use crate::error::Result;
use crate::recipes::request_builder::{Patience, RequestBuilder, options};

/// A lock that one holder at a time can have; see [`crate::Mutex`].
///
/// ```
/// # use std::time::Duration;
/// # use leasehold::blocking::Locks;
/// let order = Locks::memory().mutex("order/42").within(Duration::from_secs(3));
/// let guard = order.lock()?;
/// assert!(order.try_lock()?.is_none(), "held: an answer, not an error");
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct Mutex<K = Anywhere> {
    builder: RequestBuilder,
    patience: Patience,
    bound: PhantomData<fn() -> K>,
}

options!(Mutex<K>, K);
limit!(Mutex<K>, K);
attempts!(Mutex<K>, K);

impl Mutex {
    pub(super) fn new(builder: RequestBuilder) -> Self {
        Self { patience: builder.patience(), builder, bound: PhantomData }
    }

    /// Lets a thread take the mutex again while it holds it. Its guards cannot
    /// leave the thread, and the lease ends with the last of them.
    ///
    /// ```
    /// # use leasehold::blocking::Locks;
    /// let order = Locks::memory().mutex("order/42").reentrant();
    /// let fence = order.run(|outer| order.run(|inner| (outer.fence(), inner.fence())))??;
    /// assert_eq!(fence.0, fence.1);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn reentrant(self) -> Mutex<ThisThread> {
        Mutex { builder: self.builder, patience: self.patience, bound: PhantomData }
    }
}

impl<K> Clone for Mutex<K> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone(), ..*self }
    }
}

impl<K: Bound> Mutex<K> {
    /// Waits until the mutex is ours.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name or option, or
    /// inside an async runtime; the engine's error if it cannot be reached.
    ///
    /// # Fencing
    ///
    /// The guard's fence is larger than that of every holder before.
    pub fn lock(&self) -> Result<Guard<K>> {
        wait(&self.builder, self.patience, Mode::Exclusive)
    }

    /// Takes the mutex if it is free, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`] but `TimedOut`.
    pub fn try_lock(&self) -> Result<Option<Guard<K>>> {
        try_now(&self.builder, Mode::Exclusive)
    }

    /// Locks, runs `work`, and releases; see [`Guard::run`].
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`], and `Lost` if the lease ended before the work.
    pub fn run<T>(&self, work: impl FnOnce(&Guard<K>) -> T) -> Result<T> {
        self.lock()?.run(work)
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
