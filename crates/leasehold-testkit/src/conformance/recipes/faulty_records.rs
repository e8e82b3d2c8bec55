//! The records of a client with bad luck: replies are lost, changes are missed, and
//! others are faster.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use leasehold::claim::{RawRecord, Store};
use leasehold::engine::{
    BoxFuture, Page, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope,
};
use leasehold::{Error, ErrorKind, Name, Result};

use crate::twist::{Inner, Twist};

/// What goes wrong, and how often it did.
#[derive(Clone, Default)]
pub(super) struct BadLuck(Arc<Faults>);

#[derive(Default)]
struct Faults {
    /// So many replies to writes that come are lost.
    lost: AtomicU32,
    /// So many looks that come fail: the engine is away.
    away: AtomicU32,
    /// Whether each change is missed.
    missed: AtomicU32,
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
    pub(super) fn lose(&self, replies: u32) {
        self.0.lost.store(replies, Ordering::SeqCst);
    }

    /// Misses the next so many changes.
    pub(super) fn miss(&self, changes: u32) {
        self.0.missed.store(changes, Ordering::SeqCst);
    }

    /// Has the next so many looks fail.
    pub(super) fn go_away(&self, looks: u32) {
        self.0.away.store(looks, Ordering::SeqCst);
    }

    /// How many looks were answered.
    pub(super) fn looks(&self) -> u32 {
        self.0.looks.load(Ordering::SeqCst)
    }

    /// How many changes came, those that were missed included.
    pub(super) fn changes(&self) -> u32 {
        self.0.changes.load(Ordering::SeqCst)
    }

    /// Whether all of it has happened.
    pub(super) fn is_over(&self) -> bool {
        let counts = [&self.0.lost, &self.0.missed, &self.0.away];
        counts.iter().all(|count| count.load(Ordering::SeqCst) == 0) && self.meanwhile().is_none()
    }

    /// Has somebody do this just before the next look.
    pub(super) fn before_the_next_look(&self, work: BoxFuture<()>) {
        *self.meanwhile() = Some(work);
    }

    fn meanwhile(&self) -> std::sync::MutexGuard<'_, Option<BoxFuture<()>>> {
        self.0.meanwhile.lock().unwrap_or_else(PoisonError::into_inner)
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
            if strikes(&luck.0.lost) { Err(away().unknown()) } else { Ok(reply) }
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
            Some(if strikes(&self.luck.0.missed) { RecordEvent::Resync } else { event })
        })
    }
}

fn strikes(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "bad luck")
}
