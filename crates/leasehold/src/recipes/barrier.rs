//! The barrier: closed, everybody waits; open, everybody goes on.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::live_record::LiveRecord;
use crate::claim::{Expect, Store, Ticket};
use crate::clock::Moment;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::name::Name;

/// A barrier that one closes and opens, and others wait at.
///
/// It is a record of this name: there, it is closed; deleted, it is open. Each
/// closing is a record of its own version, so whoever waited at one is let
/// through even if the barrier was closed again before they looked.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use std::time::Duration;
///
/// let migration = locks.barrier("migration");
/// migration.close().await?;
/// assert!(migration.wait().within(Duration::from_millis(10)).await.unwrap_err().is_timed_out());
///
/// migration.open().await?;
/// migration.wait().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    locks: Locks,
    name: Result<Name>,
    lease: Option<Result<Ticket>>,
}

/// What the record of a closed barrier says.
#[derive(Serialize, Deserialize)]
struct Closed {
    closed_by: Arc<str>,
}

impl Locks {
    /// The barrier of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn barrier(&self, name: impl AsRef<str>) -> Barrier {
        let locks = self.routed(name.as_ref()).clone();
        Barrier { name: locks.name(name.as_ref()), locks, lease: None }
    }
}

impl Barrier {
    /// What is closed from this handle opens by itself when the lease of `guard`
    /// ends: by release, expiry, eviction, or the death of this process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let guard = locks.mutex("migration").lock().await?;
    /// locks.barrier("migration").while_held(&guard).close().await?;
    ///
    /// guard.release().await?;
    /// locks.barrier("migration").wait().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn while_held(mut self, guard: &Guard) -> Self {
        self.lease = Some(self.locks.ticket_of(guard));
        self
    }

    /// Closes it; false if it was closed already, which changes nothing.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if the engine keeps no records;
    /// `NotHeld` if it is to be closed while a lease is held that has ended; the
    /// engine's error if it cannot be reached. With the effect `Unknown` it may
    /// have been closed.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have closed it.
    pub async fn close(&self) -> Result<bool> {
        let closed = Closed { closed_by: self.locks.owner().label().into() };
        let value = serde_json::to_vec(&closed).unwrap_or_default();
        let mut store = Store::put(self.name.clone()?, value).expecting(Expect::Absent);
        store.bound_to = self.lease.clone().transpose()?;
        self.write(store).await
    }

    /// Opens it: all who wait go on. False if it was open already.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::close`] but `NotHeld`. With the effect `Unknown` it may
    /// have been opened.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have opened it.
    pub async fn open(&self) -> Result<bool> {
        let name = self.name.clone()?;
        let record_store = self.locks.record_store()?;
        let Some(found) = self.locks.at_home(|| record_store.load(name.clone())).await? else {
            return Ok(false);
        };
        // Only the closing that was there: one that comes later is another's.
        self.write(Store::delete(name).expecting(Expect::Version(found.version))).await
    }

    /// Whether it is closed.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::close`] but `NotHeld`.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn is_closed(&self) -> Result<bool> {
        let name = self.name.clone()?;
        let record_store = self.locks.record_store()?;
        Ok(self.locks.at_home(|| record_store.load(name)).await?.is_some())
    }

    /// Waits until it is open; see [`WaitOpen`] for limits. Does not wait if it is
    /// open now.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; `Invalid` for a bad name; `Unsupported` if
    /// the engine keeps no records; the engine's error if it cannot be reached at
    /// first. Later it is asked again for as long as the wait may last.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub fn wait(&self) -> WaitOpen {
        WaitOpen { barrier: self.clone(), limit: self.locks.own_wait_limit() }
    }

    async fn write(&self, store: Store) -> Result<bool> {
        let record_store = self.locks.record_store()?;
        Ok(self.locks.at_home(|| record_store.store(store)).await?.is_ok())
    }
}

/// A barrier to be awaited.
///
/// # Cancel safety
///
/// A dropped future leaves nothing behind.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct WaitOpen {
    barrier: Barrier,
    limit: Option<Duration>,
}

impl WaitOpen {
    /// Waits at most this long; then the error is `TimedOut`.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    async fn wait(self) -> Result<()> {
        let (name, locks) = (self.barrier.name?, self.barrier.locks);
        let now = locks.clock().now();
        let until = self.limit.map_or(Moment::NEVER, |limit| now.after(limit));
        let record = LiveRecord::follow(&locks, &name).await?;
        locks.until(until, until_open(record)).await.unwrap_or_else(|| Err(still_closed(&name)))
    }
}

impl IntoFuture for WaitOpen {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<Result<()>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

/// Waits for the end of the closing that is there now: another version is another
/// closing.
async fn until_open(mut record: LiveRecord) -> Result<()> {
    let Some(closing) = record.version() else { return Ok(()) };
    while record.version() == Some(closing) {
        record.changed().await?;
    }
    Ok(())
}

fn still_closed(name: &Name) -> Error {
    let text = "the barrier was not opened in time: whoever closed it opens it, or \
                `leasehold barrier open` does";
    Error::new(ErrorKind::TimedOut, text).with("barrier", name)
}
