//! Many names at once, for threads.

use std::marker::PhantomData;
use std::time::Duration;

use super::bound::{Anywhere, Bound, ThisThread};
use super::call::block_on;
use super::guard::Guard;
use super::patience::{asker_of, limit};
use crate::claim::Released;
use crate::error::Result;
use crate::hold::Standing;
use crate::name::Name;
use crate::recipes::all::{self, first};
use crate::recipes::request_builder::{Patience, RequestBuilder, options};

/// Several mutexes that are taken together; see [`crate::All`].
///
/// ```
/// # use leasehold::blocking::Locks;
/// let guards = Locks::memory().all(["account/7", "account/3"]).lock()?;
/// assert!(guards.fence("account/3").is_some());
/// guards.release()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct All<K = Anywhere> {
    builder: RequestBuilder,
    names: Result<Vec<Name>>,
    patience: Patience,
    bound: PhantomData<fn() -> K>,
}

options!(All<K>, K);
limit!(All<K>, K);

impl All {
    pub(super) fn new(all: all::All) -> Self {
        let all::All { builder, names } = all;
        Self { patience: builder.patience(), builder, names, bound: PhantomData }
    }

    /// Lets a thread take names again while it holds them. Its guards cannot
    /// leave the thread, and each lease ends with the last of them.
    #[must_use]
    pub fn reentrant(self) -> All<ThisThread> {
        let Self { builder, names, patience, .. } = self;
        All { builder, names, patience, bound: PhantomData }
    }
}

impl<K> Clone for All<K> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone(), names: self.names.clone(), ..*self }
    }
}

impl<K: Bound> All<K> {
    /// Waits until all are ours.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](super::Mutex::lock).
    pub fn lock(&self) -> Result<Guards<K>> {
        let lock = self.now().lock();
        let lock = self.patience.limit.into_iter().fold(lock, all::LockAll::within);
        block_on(lock.into_future()).map(Guards::new)
    }

    /// Takes all if all are free, and never waits: contention is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::try_lock`](super::Mutex::try_lock).
    pub fn try_lock(&self) -> Result<Option<Guards<K>>> {
        Ok(block_on(self.now().try_lock())?.map(Guards::new))
    }

    /// What the async recipe is for the thread that asks.
    fn now(&self) -> all::All {
        all::All { builder: asker_of::<K>(&self.builder), names: self.names.clone() }
    }
}

/// Several held leases: good as long as each of them is.
#[must_use = "the leases are given back when the guards are dropped"]
#[derive(Debug)]
pub struct Guards<K = Anywhere>(Vec<Guard<K>>);

impl<K> Guards<K> {
    fn new(guards: all::Guards) -> Self {
        Self(guards.0.into_iter().map(Guard::new).collect())
    }

    /// The guards, in byte order of their names.
    pub fn iter(&self) -> std::slice::Iter<'_, Guard<K>> {
        self.0.iter()
    }

    /// The fence of one of the names.
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<u64> {
        self.iter().find(|guard| guard.name().as_str() == name).map(Guard::fence)
    }

    /// How long all are certainly still ours.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// All still ours? Costs no request.
    ///
    /// # Errors
    ///
    /// `Lost`, with the first name that is and the reason.
    pub fn check(&self) -> Result<()> {
        self.iter().try_for_each(Guard::check)
    }

    /// Waits, `limit` at most, for the end of the first of them; tells why, or
    /// `None` if all are still ours.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn lost_within(&self, limit: Duration) -> Result<Option<Standing>> {
        let Some(one) = self.0.first() else { return Ok(None) };
        let lost = first(self.iter().map(|guard| guard.inner.lost()));
        let lost = one.inner.within(limit, lost);
        block_on(async { Ok(lost.await) })
    }

    /// Gives all back; `AlreadyLost` if one of them was.
    ///
    /// # Errors
    ///
    /// The first error of the engine; what could not be released is tried again
    /// in the background. `Invalid` inside an async runtime; the guards are then
    /// dropped, which gives the leases back too.
    pub fn release(self) -> Result<Released> {
        let guards = self.0.into_iter().map(|guard| guard.inner).collect();
        block_on(all::Guards(guards).release())
    }
}

impl<'a, K> IntoIterator for &'a Guards<K> {
    type Item = &'a Guard<K>;
    type IntoIter = std::slice::Iter<'a, Guard<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
