//! The record: a value that is read, changed and written back if nobody else
//! was faster.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lost_race;
use super::versioned::{Swap, Versioned, decode, encode};
use super::watch::Watch;
use crate::claim::{Expect, Store, Ticket};
use crate::engine::Scope;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;

/// How often an update is tried.
const ATTEMPTS: u32 = 16;

/// A versioned value under a name: any serde type, stored as JSON of at most
/// 1 MiB.
///
/// The optimistic half beside the locks: nobody waits; whoever writes says
/// which version it has read, and learns if another one was faster. Records
/// and locks of one name do not know of each other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let stock = locks.record::<u32>("stock/42");
/// let version = stock.set(&10).await?;
///
/// stock.update(|left| Some(left.unwrap_or(0) - 1)).await?;
/// assert!(stock.set_if(version, &100).await?.is_err(), "someone was faster");
/// assert_eq!(stock.get().await?.map(|found| found.value), Some(9));
/// # Ok(()) }
/// ```
pub struct Record<T> {
    locks: Locks,
    name: Result<Name>,
    ttl: Option<Duration>,
    lease: Option<Result<Ticket>>,
    attempts: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        let (locks, name) = (self.locks.clone(), self.name.clone());
        let (ttl, lease, attempts) = (self.ttl, self.lease.clone(), self.attempts);
        Self { locks, name, ttl, lease, attempts, kind: PhantomData }
    }
}

impl<T> fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Locks {
    /// The record of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn record<T: Serialize + DeserializeOwned>(&self, name: impl AsRef<str>) -> Record<T> {
        let locks = self.routed(name.as_ref()).clone();
        let name = locks.name(name.as_ref());
        Record { locks, name, ttl: None, lease: None, attempts: ATTEMPTS, kind: PhantomData }
    }
}

impl<T> Record<T> {
    /// What is written from this handle goes after `ttl`.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What is written from this handle goes when the lease of `guard` ends:
    /// by release, expiry, eviction, or the death of this process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let guard = locks.mutex("leader").lock().await?;
    /// let address = locks.record::<String>("leader/address").bound_to(&guard);
    /// address.set(&"10.0.0.7".into()).await?;
    /// assert!(address.get().await?.is_some());
    ///
    /// guard.release().await?;
    /// assert!(address.get().await?.is_none(), "it went with the lease");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn bound_to(mut self, guard: &Guard) -> Self {
        self.lease = Some(self.locks.ticket_of(guard));
        self
    }

    /// How often [`Record::update`] tries: 16 times unless set.
    #[must_use]
    pub const fn attempts(mut self, count: u32) -> Self {
        self.attempts = count;
        self
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync> Record<T> {
    /// The value and its version, if there is one.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if the engine keeps no records;
    /// `Unexpected` if the value is not a `T`; the engine's error if it cannot
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn get(&self) -> Result<Option<Versioned<T>>> {
        let name = self.name.clone()?;
        let record_store = self.locks.record_store()?;
        let found = self.locks.at_home(|| record_store.load(name.clone())).await?;
        found.map(|record| decode(&name, &record)).transpose()
    }

    /// Writes `value`, whatever is there; its version.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`]; `Invalid` if the value is too large or is no
    /// JSON; `NotHeld` if it is to be bound to a lease that has ended. With
    /// the effect `Unknown` it may have been written.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have written.
    pub async fn set(&self, value: &T) -> Result<u64> {
        match self.write(Expect::Any, Some(value)).await? {
            Ok(version) => Ok(version),
            Err(_) => Err(Error::new(ErrorKind::Unexpected, "a plain write was refused")),
        }
    }

    /// Writes `value` if this version is there; otherwise says what is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let price = locks.record::<u32>("price/apple");
    /// let version = price.set(&3).await?;
    /// let newer = price.set_if(version, &4).await?.expect("nobody was faster");
    /// assert!(newer > version);
    ///
    /// let Err(Some(found)) = price.set_if(version, &5).await? else { panic!("someone was") };
    /// assert_eq!((found.value, found.version), (4, newer));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Record::set`]; a lost race is no error.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have written.
    pub async fn set_if(&self, version: u64, value: &T) -> Result<Swap<T>> {
        self.write(Expect::Version(version), Some(value)).await
    }

    /// Writes `value` if nothing is there; otherwise says what is.
    ///
    /// # Errors
    ///
    /// Those of [`Record::set`]; a lost race is no error.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have written.
    pub async fn create(&self, value: &T) -> Result<Swap<T>> {
        self.write(Expect::Absent, Some(value)).await
    }

    /// Deletes whatever is there.
    ///
    /// # Errors
    ///
    /// Those of [`Record::set`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have deleted.
    pub async fn delete(&self) -> Result<()> {
        self.write(Expect::Any, None).await.map(drop)
    }

    /// Deletes this version; otherwise says what is there. The version of a
    /// deletion is larger than all before, too.
    ///
    /// # Errors
    ///
    /// Those of [`Record::set`]; a lost race is no error.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have deleted.
    pub async fn delete_if(&self, version: u64) -> Result<Swap<T>> {
        self.write(Expect::Version(version), None).await
    }

    /// Reads, changes, and writes back if nobody else was faster; otherwise
    /// tries again with what is there by then, 16 times at most. `None` stands
    /// for no record, both ways. Returns what was written.
    ///
    /// `change` may run several times, and only its last result counts: it
    /// must not do anything else.
    ///
    /// # Errors
    ///
    /// Those of [`Record::set`]; `TimedOut` if others were faster every time:
    /// nothing was written then.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have written.
    pub async fn update(
        &self,
        mut change: impl FnMut(Option<T>) -> Option<T> + Send,
    ) -> Result<Option<Versioned<T>>> {
        let mut found = self.get().await?;
        for attempt in 0..self.attempts {
            lost_race::pause(&self.locks, attempt).await?;
            let expect = found.as_ref().map_or(Expect::Absent, |it| Expect::Version(it.version));
            let value = change(found.take().map(|found| found.value));
            match self.write(expect, value.as_ref()).await? {
                Ok(version) => return Ok(value.map(|value| Versioned { value, version })),
                Err(instead) => found = instead,
            }
        }
        Err(self.outrun())
    }

    /// Changes of this record, from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call watches nothing.
    pub async fn watch(&self) -> Result<Watch<T>> {
        Watch::start(&self.locks, Scope::name(&self.name.clone()?)).await
    }

    async fn write(&self, expect: Expect, value: Option<&T>) -> Result<Swap<T>> {
        let name = self.name.clone()?;
        let mut store = Store::delete(name.clone()).expecting(expect);
        store.value = value.map(|value| encode(&name, value)).transpose()?;
        store.ttl = self.ttl;
        store.bound_to = self.lease.clone().transpose()?;
        let record_store = self.locks.record_store()?;
        let stored = self.locks.at_home(|| record_store.store(store)).await?;
        Ok(match stored {
            Ok(version) => Ok(version),
            Err(found) => Err(found.map(|record| decode(&name, &record)).transpose()?),
        })
    }

    fn outrun(&self) -> Error {
        let text = format!(
            "others changed the record each of {} times before this update could: try again, \
             allow more attempts, or take a lock around it; nothing was written",
            self.attempts
        );
        let error = Error::new(ErrorKind::TimedOut, text);
        self.name.iter().fold(error, |error, name| error.with("record", name))
    }
}
