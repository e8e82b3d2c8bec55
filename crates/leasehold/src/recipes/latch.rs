//! The latch: nobody passes before all have counted down.
//!
//! A latch that is set is one record; one that is open is none. The record has the
//! count that is left, and the round: a number of its own for each time that it is
//! set. So whoever waits, and is told late, knows that the latch it waits for is
//! open although another one of the same name is closed by then.
//!
//! Arrivals are remembered in the record itself. An arrival and its count are one
//! write then; with a record for each arrival there would be two, and the second
//! could be lost. It costs room, so there is a limit.

mod closed;
mod watch;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use self::closed::{ClosedLatch, Counted, FoundLatch, look};
use self::watch::LatchWatch;
use super::lost_race;
use super::versioned::{decode, encode};
use crate::claim::{Expect, Store};
use crate::clock::Moment;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Locks;
use crate::name::{NAME_MAX, Name};

/// A latch that opens when it has been counted down to 0, for all processes that
/// use the same name: many wait until some others have done their part.
///
/// A latch is open until it is set, and open again once its count is 0; then it can
/// be set anew. Whoever waited for the latch that was set before passes all the same.
/// Counts stay if whoever has counted goes; a process that dies before it has counted
/// keeps the latch closed. Needs the cargo feature `records`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let loaded = locks.latch("import/7/loaded");
/// loaded.set(2).await?;
///
/// let report = tokio::spawn({
///     let loaded = loaded.clone();
///     async move { loaded.wait().await }
/// });
/// loaded.arrive("part 1").await?;
/// loaded.arrive("part 1").await?; // once more, as after a lost reply: counts once
/// assert_eq!(loaded.count().await?, 1);
///
/// assert_eq!(loaded.arrive("part 2").await?, 0);
/// report.await.unwrap()?;
/// # Ok(()) }
/// ```
///
/// The latch is the record of its name. A lock of the same name has nothing to do
/// with it.
#[derive(Clone, Debug)]
pub struct Latch {
    locks: Locks,
    name: Result<Name>,
}

impl Locks {
    /// The latch of this name; needs the cargo feature `records`.
    ///
    /// A name that is not valid is an error of the first call that uses it.
    #[must_use]
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        let locks = self.routed(name.as_ref()).clone();
        Latch { name: locks.name(name.as_ref()), locks }
    }
}

impl Latch {
    /// Closes the latch until it has been counted down this many times, unless it
    /// is closed already; whether it was open. A count of 0 leaves it open.
    ///
    /// # Errors
    ///
    /// Those of [`Latch::count`]. With the effect `Unknown` it may have been set.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have set it.
    pub async fn set(&self, count: u64) -> Result<bool> {
        let name = self.name.clone()?;
        let Some(count) = NonZeroU64::new(count) else {
            return Ok(self.find(&name).await?.is_none());
        };
        let value = encode(&name, &ClosedLatch::new(count))?;
        let store = Store::put(name.clone(), value).expecting(Expect::Absent);
        Ok(self.write(store).await?.is_ok())
    }

    /// Counts down by one, and opens the latch with the last one; what is left. An
    /// open latch stays open.
    ///
    /// # Errors
    ///
    /// Those of [`Latch::count`]. With the effect `Unknown` it may have been counted;
    /// to count again could be once too often: [`Latch::arrive`] can be repeated.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have counted.
    pub async fn count_down(&self) -> Result<u64> {
        self.count_once(None).await
    }

    /// Counts down by one for `id`, once, however often it is repeated: after a
    /// lost reply, by a process that was started again. What is left. An open latch
    /// stays open, and remembers nobody: a latch that is set anew counts each id
    /// anew.
    ///
    /// A latch remembers 1,000 arrivals, of ids of at most 255 bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Latch::count`]; `Invalid` if the id is too long, or there are too
    /// many. With the effect `Unknown` it may have been counted: call it again.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have counted: call it again.
    pub async fn arrive(&self, id: impl AsRef<str> + Send) -> Result<u64> {
        let id = id.as_ref();
        if id.len() > NAME_MAX {
            let text = format!("the id of an arrival has at most {NAME_MAX} bytes");
            return Err(Error::invalid(text).with("bytes", id.len()));
        }
        self.count_once(Some(id)).await
    }

    /// How often it has to be counted down until it is open: 0 if it is.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name; `Unsupported` if the engine keeps no records;
    /// `Unexpected` if the record of that name is no latch; the engine's error if it
    /// cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has changed nothing.
    pub async fn count(&self) -> Result<u64> {
        let found = self.find(&self.name.clone()?).await?;
        Ok(found.map_or(0, |latch| latch.value.left.get()))
    }

    /// Waits until the latch is open; see [`LatchWait`] for limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit; those of [`Latch::count`]. An engine that goes
    /// away once the wait has begun is waited for.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind.
    pub fn wait(&self) -> LatchWait {
        LatchWait { latch: self.clone(), limit: self.locks.own_wait_limit() }
    }

    /// Every race that is lost is lost to another one who counts, so this comes to
    /// an end. A latch that has another round was opened meanwhile: this count was
    /// not for that one.
    async fn count_once(&self, id: Option<&str>) -> Result<u64> {
        let name = self.name.clone()?;
        let mut found = self.find(&name).await?;
        let Some(round) = found.as_ref().map(|latch| latch.value.round) else { return Ok(0) };
        let mut losses = 0;
        while let Some(latch) = found.filter(|latch| latch.value.round == round) {
            let counted = latch.value.count(id).map_err(|error| error.with("record", &name))?;
            let next = match counted {
                Counted::Before => return Ok(latch.value.left.get()),
                Counted::Closed(next) => Some(next),
                Counted::Open => None,
            };
            match self.replace(&name, latch.version, next.as_ref()).await? {
                Ok(()) => return Ok(next.map_or(0, |next| next.left.get())),
                Err(instead) => found = instead,
            }
            losses += 1;
            lost_race::pause(&self.locks, losses).await?;
        }
        Ok(0)
    }

    async fn find(&self, name: &Name) -> Result<FoundLatch> {
        let (core, name) = (Arc::clone(self.locks.core()), name.clone());
        self.locks.at_home(|| Box::pin(async move { look(&core, &name).await })).await
    }

    /// Writes what is left of a latch; it goes if nothing is.
    async fn replace(
        &self,
        name: &Name,
        version: u64,
        next: Option<&ClosedLatch>,
    ) -> Result<Result<(), FoundLatch>> {
        let mut store = Store::delete(name.clone()).expecting(Expect::Version(version));
        store.value = next.map(|next| encode(name, next)).transpose()?;
        self.write(store).await
    }

    /// What was counted may not be forgotten: somebody would wait for ever.
    async fn write(&self, store: Store) -> Result<Result<(), FoundLatch>> {
        let (name, record_store) = (store.name.clone(), self.locks.record_store()?);
        match self.locks.at_home(|| record_store.store(store.lasting())).await? {
            Ok(_) => Ok(Ok(())),
            Err(found) => Ok(Err(found.map(|record| decode(&name, &record)).transpose()?)),
        }
    }
}

/// The opening of a latch, to be awaited.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use std::time::Duration;
///
/// let ready = locks.latch("ready");
/// ready.wait().await?; // nobody has set it: it is open
///
/// ready.set(1).await?;
/// let waited = ready.wait().within(Duration::from_millis(20)).await;
/// assert!(waited.unwrap_err().is_timed_out());
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// A dropped future leaves nothing behind.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct LatchWait {
    latch: Latch,
    limit: Option<Duration>,
}

impl LatchWait {
    /// Waits at most this long; then the error is `TimedOut`. With no time at all
    /// it looks once.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    async fn wait(self) -> Result<()> {
        if self.limit == Some(Duration::ZERO) {
            return self.look_once().await;
        }
        let (locks, name) = (self.latch.locks, self.latch.name?);
        let until = self.limit.map_or(Moment::NEVER, |limit| locks.clock().now().after(limit));
        // Not the client: whose last handle goes must not end it on home.
        let watch = LatchWatch::new(locks.core(), &name);
        match locks.until(until, watch.opening()).await {
            Some(opened) => opened,
            None => Err(still_closed(&name, self.limit)),
        }
    }

    async fn look_once(&self) -> Result<()> {
        match self.latch.count().await? {
            0 => Ok(()),
            _ => Err(still_closed(&self.latch.name.clone()?, self.limit)),
        }
    }
}

impl IntoFuture for LatchWait {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<Result<()>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

fn still_closed(name: &Name, limit: Option<Duration>) -> Error {
    let text = format!(
        "waited {:?} for the latch {:?} to open: ask for its count to see how many are missing",
        limit.unwrap_or_default(),
        name.as_str()
    );
    Error::new(ErrorKind::TimedOut, text)
}
