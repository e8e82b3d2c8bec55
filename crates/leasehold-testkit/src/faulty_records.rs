//! The records of a client with bad luck: replies are lost, changes are missed, and
//! others are faster.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leasehold::claim::{RawRecord, Store};
use leasehold::engine::{
    BoxFuture, Page, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope,
};
use leasehold::{Error, ErrorKind, Name, Result};

use crate::twist::{Inner, Twist};

/// What goes wrong, and how often it did.
#[derive(Clone, Default)]
pub struct BadLuck(Arc<Faults>);

#[derive(Default)]
struct Faults {
    /// So many replies to writes that come are lost.
    lost: AtomicU32,
    /// So many looks that come fail: the engine is away.
    away: AtomicU32,
    /// So many changes that come are missed.
    missed: AtomicU32,
    /// So many writes that come stand still on their way; those that do.
    delayed: AtomicU32,
    late: Mutex<Vec<Store>>,
    /// How often it has struck: replies lost, changes missed.
    losses: AtomicU32,
    misses: AtomicU32,
    /// How many looks were answered, and how many changes came.
    looks: AtomicU32,
    changes: AtomicU32,
    /// What somebody else does just before the next look.
    meanwhile: Mutex<Option<BoxFuture<()>>>,
    twisted: OnceLock<FaultyRecords>,
}

impl fmt::Debug for BadLuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BadLuck")
    }
}

impl BadLuck {
    /// Loses the next so many replies to writes: they are carried out.
    pub fn lose(&self, replies: u32) {
        self.0.lost.store(replies, Ordering::SeqCst);
    }

    /// Misses the next so many changes.
    pub fn miss(&self, changes: u32) {
        self.0.missed.store(changes, Ordering::SeqCst);
    }

    /// The next so many writes stand still on their way until they are
    /// [delivered](Self::deliver); nobody is answered.
    pub fn delay(&self, writes: u32) {
        self.0.delayed.store(writes, Ordering::SeqCst);
    }

    /// Lets the writes arrive that stood still; how many those were.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub async fn deliver(&self) -> Result<usize> {
        let late = std::mem::take(&mut *self.late());
        let (count, records) = (late.len(), self.0.twisted.get());
        for write in late {
            let records = records.expect("writes stood still on their way to them");
            // It is refused, or changes something: the engine knows.
            let _ = records.below().store(write).await?;
        }
        Ok(count)
    }

    /// How many replies were lost, those of delayed writes included.
    #[must_use]
    pub fn losses(&self) -> u32 {
        self.0.losses.load(Ordering::SeqCst)
    }

    /// How many changes were missed.
    #[must_use]
    pub fn misses(&self) -> u32 {
        self.0.misses.load(Ordering::SeqCst)
    }

    fn late(&self) -> MutexGuard<'_, Vec<Store>> {
        self.0.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the next so many looks fail.
    pub fn go_away(&self, looks: u32) {
        self.0.away.store(looks, Ordering::SeqCst);
    }

    /// How many looks were answered.
    #[must_use]
    pub fn looks(&self) -> u32 {
        self.0.looks.load(Ordering::SeqCst)
    }

    /// How many changes came, those that were missed included.
    #[must_use]
    pub fn changes(&self) -> u32 {
        self.0.changes.load(Ordering::SeqCst)
    }

    /// Whether all of it has happened.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let counts = [&self.0.lost, &self.0.missed, &self.0.away];
        counts.iter().all(|count| count.load(Ordering::SeqCst) == 0) && self.meanwhile().is_none()
    }

    /// Has somebody do this just before the next look.
    pub fn before_the_next_look(&self, work: BoxFuture<()>) {
        *self.meanwhile() = Some(work);
    }

    fn meanwhile(&self) -> MutexGuard<'_, Option<BoxFuture<()>>> {
        self.0.meanwhile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    fn loses(&self) -> bool {
        let strikes = strikes(&self.lost);
        self.losses.fetch_add(u32::from(strikes), Ordering::SeqCst);
        strikes
    }

    fn misses_one(&self) -> bool {
        let strikes = strikes(&self.missed);
        self.misses.fetch_add(u32::from(strikes), Ordering::SeqCst);
        strikes
    }
}

impl Twist for BadLuck {
    fn records<'a>(&'a self, inner: &'a Inner) -> Option<&'a dyn RecordStore> {
        inner.records()?;
        let twisted = || FaultyRecords { inner: Arc::clone(inner), luck: self.clone() };
        Some(self.0.twisted.get_or_init(twisted))
    }
}

/// The records below, with bad luck.
#[derive(Debug)]
struct FaultyRecords {
    inner: Inner,
    luck: BadLuck,
}

impl FaultyRecords {
    fn below(&self) -> &dyn RecordStore {
        self.inner.records().expect("an engine with records keeps them")
    }

    fn written<T: Send + 'static>(&self, reply: BoxFuture<Result<T>>) -> BoxFuture<Result<T>> {
        let luck = self.luck.clone();
        Box::pin(async move {
            let reply = reply.await?;
            if luck.0.loses() { Err(away().unknown()) } else { Ok(reply) }
        })
    }
}

impl RecordStore for FaultyRecords {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        let (luck, inner) = (self.luck.clone(), Arc::clone(&self.inner));
        Box::pin(async move {
            let meanwhile = luck.meanwhile().take();
            if let Some(work) = meanwhile {
                work.await;
            }
            if strikes(&luck.0.away) {
                return Err(away());
            }
            let records = inner.records().expect("an engine with records keeps them");
            let found = records.load(name).await;
            luck.0.looks.fetch_add(1, Ordering::SeqCst);
            found
        })
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        if strikes(&self.luck.0.delayed) {
            self.luck.0.losses.fetch_add(1, Ordering::SeqCst);
            self.luck.late().push(store);
            return Box::pin(std::future::ready(Err(away().unknown())));
        }
        self.written(self.below().store(store))
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        self.written(self.below().add(name, amount))
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        self.below().list(scope, page)
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let (luck, watching) = (self.luck.clone(), self.below().watch(scope));
        Box::pin(async move {
            let events = watching.await?;
            Ok(Box::new(FaultyEvents { events, luck }) as Box<dyn RecordEvents>)
        })
    }
}

/// Changes, some of which are missed.
#[derive(Debug)]
struct FaultyEvents {
    events: Box<dyn RecordEvents>,
    luck: BadLuck,
}

impl RecordEvents for FaultyEvents {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(async {
            let event = self.events.next().await?;
            self.luck.0.changes.fetch_add(1, Ordering::SeqCst);
            Some(if self.luck.0.misses_one() { RecordEvent::Resync } else { event })
        })
    }
}

fn strikes(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "bad luck")
}
