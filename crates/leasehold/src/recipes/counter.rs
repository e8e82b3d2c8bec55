//! The counter: one number that everybody may change.

use std::time::Duration;

use super::lost_race;
use crate::claim::{Expect, RawRecord, Store};
use crate::clock::Moment;
use crate::engine::records::number;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;

/// After how many lost races an update stands in line for the mutex.
const PROMOTE_AFTER: u32 = 8;
/// How often an update is tried, in line or not.
const ATTEMPTS: u32 = 64;

/// A number that everybody may read and change: a whole number of 64 bits, which
/// may be below zero.
///
/// It is the record of its name, in decimal digits, so `locks.record::<i64>(name)`
/// reads and sets the same number. What does not exist is 0. Needs the cargo
/// feature `records`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let seats = locks.counter("show/42/seats");
/// assert_eq!(seats.add(100).await?, 100);
/// assert_eq!(seats.add(-1).await?, 99);
///
/// let updated = seats.update(|seats| seats / 2).await?;
/// assert_eq!((updated.value, updated.promoted), (49, false));
/// assert_eq!(seats.get().await?, 49);
/// # Ok(()) }
/// ```
///
/// # Lost replies
///
/// A change whose reply was lost is an error with the effect `Unknown`, and is
/// never repeated silently: it would count twice. So the number is the sum of all
/// amounts that were confirmed, and of some of those that are unknown.
#[derive(Clone, Debug)]
pub struct Counter {
    locks: Locks,
    name: Result<Name>,
    promote_after: u32,
    attempts: u32,
    limit: Option<Duration>,
}

/// What came of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The number that was written.
    pub value: i64,
    /// How often it was tried: 1 if nobody else was faster.
    pub tries: u32,
    /// Whether the last tries were made under the mutex of the same name.
    pub promoted: bool,
    /// How long it took, from the first look on.
    pub took: Duration,
}

impl Locks {
    /// The counter of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn counter(&self, name: impl AsRef<str>) -> Counter {
        let locks = self.routed(name.as_ref()).clone();
        let (name, limit) = (locks.name(name.as_ref()), locks.own_wait_limit());
        Counter { locks, name, promote_after: PROMOTE_AFTER, attempts: ATTEMPTS, limit }
    }
}

impl Counter {
    /// After how many lost races [`Counter::update`] takes the mutex of the same
    /// name: 8 unless set. Those who are in line for it lose no more races to each
    /// other.
    #[must_use]
    pub const fn promote_after(mut self, losses: u32) -> Self {
        self.promote_after = losses;
        self
    }

    /// How often [`Counter::update`] tries in all: 64 times unless set.
    #[must_use]
    pub const fn attempts(mut self, count: u32) -> Self {
        self.attempts = count;
        self
    }

    /// How long [`Counter::update`] may wait for the mutex.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The number; 0 if there is none.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if the engine keeps no records;
    /// `Unexpected` if the record is no number; the engine's error if it cannot be
    /// reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn get(&self) -> Result<i64> {
        let name = self.name.clone()?;
        let found = self.load(&name).await?;
        read(&name, found.as_ref())
    }

    /// Adds to the number, and returns the new one: one request, which nobody can
    /// get in the way of.
    ///
    /// # Errors
    ///
    /// Those of [`Counter::get`]; `Invalid` if the record is no number or the sum
    /// does not fit into 64 bits, and nothing is changed then. With the effect
    /// `Unknown` it may have been added.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have added.
    pub async fn add(&self, amount: i64) -> Result<i64> {
        let (name, record_store) = (self.name.clone()?, self.locks.record_store()?);
        self.locks.at_home(|| record_store.add(name, amount)).await
    }

    /// Reads, changes, and writes back if nobody else was faster; otherwise tries
    /// again with the number that is there by then. After some lost races it takes
    /// the mutex of the same name and goes on under it: those who do so come one
    /// after the other. The number is safe without it, and if it is lost.
    ///
    /// `change` may run several times, and only its last result counts: it must not
    /// do anything else. What is written stays until it is deleted, whatever time or
    /// lease the record had before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let best = locks.counter("best").promote_after(3);
    /// for points in [700, 900, 800] {
    ///     best.update(|best| best.max(points)).await?;
    /// }
    /// assert_eq!(best.get().await?, 900);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Counter::get`]; `TimedOut` if others were faster every time, or the
    /// mutex was not free in time: nothing was written then. With the effect
    /// `Unknown` it may have been written.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have written. It leaves no mutex behind.
    pub async fn update(&self, mut change: impl FnMut(i64) -> i64 + Send) -> Result<Updated> {
        let (name, since) = (self.name.clone()?, self.locks.clock().now());
        let (mut found, mut guard) = (self.load(&name).await?, None);
        for losses in 0..self.attempts {
            if losses == self.promote_after {
                guard = Some(self.take_mutex(&name).await?);
                found = self.load(&name).await?;
            } else {
                lost_race::pause(&self.locks, losses).await?;
            }
            let value = change(read(&name, found.as_ref())?);
            match self.replace(&name, found.as_ref(), value).await? {
                Ok(()) => return Ok(self.updated(value, losses + 1, guard.as_ref(), since)),
                Err(instead) => found = instead,
            }
        }
        Err(self.outrun(&name))
    }

    fn updated(&self, value: i64, tries: u32, guard: Option<&Guard>, since: Moment) -> Updated {
        let took = self.locks.clock().now().since(since);
        Updated { value, tries, promoted: guard.is_some(), took }
    }

    /// It goes back in the background: nobody has to wait for that.
    async fn take_mutex(&self, name: &Name) -> Result<Guard> {
        let lock = self.locks.mutex(name.as_str()).lock();
        match self.limit {
            Some(limit) => lock.within(limit).await,
            None => lock.await,
        }
    }

    async fn load(&self, name: &Name) -> Result<Option<RawRecord>> {
        let record_store = self.locks.record_store()?;
        self.locks.at_home(|| record_store.load(name.clone())).await
    }

    /// Writes the number in place of what was found, or says what is there instead.
    /// What was counted once may not be forgotten.
    async fn replace(
        &self,
        name: &Name,
        found: Option<&RawRecord>,
        value: i64,
    ) -> Result<Result<(), Option<RawRecord>>> {
        let expect = found.map_or(Expect::Absent, |found| Expect::Version(found.version));
        let store = Store::put(name.clone(), value.to_string().into_bytes());
        let record_store = self.locks.record_store()?;
        let stored = self.locks.at_home(|| record_store.store(store.expecting(expect).lasting()));
        Ok(stored.await?.map(drop))
    }

    fn outrun(&self, name: &Name) -> Error {
        let text = format!(
            "others changed the counter each of {} times before this update could: add to it \
             instead if you can, or allow more attempts; nothing was written",
            self.attempts
        );
        Error::new(ErrorKind::TimedOut, text).with("record", name)
    }
}

/// The number that was found.
fn read(name: &Name, found: Option<&RawRecord>) -> Result<i64> {
    let Some(found) = found else { return Ok(0) };
    number(&found.value).ok_or_else(|| {
        let text = "the record of a counter is no number of 64 bits: look who else writes it";
        Error::new(ErrorKind::Unexpected, text).with("record", name)
    })
}
