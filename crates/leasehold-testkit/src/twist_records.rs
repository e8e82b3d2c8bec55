//! Records whose answers get lost, and whose watchers are told to read again.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold::engine::{
    BoxFuture, Page, RawRecord, RecordEvent, RecordEvents, RecordListing, RecordStore, Scope,
    Store as Write,
};
use leasehold::{Error, ErrorKind, Name, Result};

use crate::twist::{Inner, Twist};

/// A twist of the records of an engine.
#[derive(Clone, Debug, Default)]
pub struct ShakyRecords(Arc<Shaking>);

#[derive(Debug, Default)]
struct Shaking {
    below: std::sync::OnceLock<Inner>,
    /// How many answers to a write get lost from now on, and did.
    losses: AtomicU32,
    lost: AtomicU32,
    /// How many writes stand still on their way from now on, and those that do.
    delays: AtomicU32,
    late: Mutex<Vec<Write>>,
    /// Whether each change is told as nothing but a gap, and how many were.
    gaps: AtomicU32,
    gapped: AtomicU32,
}

impl ShakyRecords {
    /// The answers to the next writes get lost: they are carried out, and nobody
    /// hears.
    pub fn lose(&self, answers: u32) {
        self.0.losses.store(answers, Ordering::Release);
    }

    /// How many answers got lost.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.0.lost.load(Ordering::Acquire)
    }

    /// The next writes stand still on their way, until they are [delivered]; nobody
    /// is answered.
    ///
    /// [delivered]: ShakyRecords::deliver
    pub fn delay(&self, writes: u32) {
        self.0.delays.store(writes, Ordering::Release);
    }

    /// Lets the writes arrive that stood still; how many those were.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub async fn deliver(&self) -> Result<usize> {
        let late = std::mem::take(&mut *self.0.late());
        let count = late.len();
        for write in late {
            // It is refused, or changes something: the engine knows.
            let _ = self.inner().store(write).await?;
        }
        Ok(count)
    }

    /// From now on watchers hear of the next changes as gaps.
    pub fn gap(&self, changes: u32) {
        self.0.gaps.store(changes, Ordering::Release);
    }

    /// How many changes were told as gaps.
    #[must_use]
    pub fn gapped(&self) -> u32 {
        self.0.gapped.load(Ordering::Acquire)
    }

    fn inner(&self) -> &dyn RecordStore {
        let below = self.0.below.get().and_then(|engine| engine.records());
        below.expect("asked for by `records`, which has seen them")
    }
}

impl Shaking {
    fn late(&self) -> std::sync::MutexGuard<'_, Vec<Write>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_reply() -> Error {
    Error::new(ErrorKind::Unavailable, "the reply was lost").unknown()
}

/// Takes one of what is left; whether there was one.
fn take(left: &AtomicU32, taken: &AtomicU32) -> bool {
    let less = |left: u32| left.checked_sub(1);
    let some = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok();
    taken.fetch_add(u32::from(some), Ordering::AcqRel);
    some
}

impl Twist for ShakyRecords {
    fn records<'a>(&'a self, inner: &'a Inner) -> Option<&'a dyn RecordStore> {
        inner.records()?;
        self.0.below.get_or_init(|| Arc::clone(inner));
        Some(self)
    }
}

impl RecordStore for ShakyRecords {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        self.inner().load(name)
    }

    fn store(&self, write: Write) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        if take(&self.0.delays, &self.0.lost) {
            self.0.late().push(write);
            return Box::pin(std::future::ready(Err(no_reply())));
        }
        let (asked, shaking) = (self.inner().store(write), Arc::clone(&self.0));
        Box::pin(async move {
            let answer = asked.await?;
            if take(&shaking.losses, &shaking.lost) {
                return Err(no_reply());
            }
            Ok(answer)
        })
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        self.inner().add(name, amount)
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        self.inner().list(scope, page)
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let (asked, shaking) = (self.inner().watch(scope), Arc::clone(&self.0));
        Box::pin(async move {
            let below = asked.await?;
            let watch: Box<dyn RecordEvents> = Box::new(ShakyWatch { below, shaking });
            Ok(watch)
        })
    }
}

#[derive(Debug)]
struct ShakyWatch {
    below: Box<dyn RecordEvents>,
    shaking: Arc<Shaking>,
}

impl RecordEvents for ShakyWatch {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(async {
            let event = self.below.next().await?;
            let gap = take(&self.shaking.gaps, &self.shaking.gapped);
            Some(if gap { RecordEvent::Resync } else { event })
        })
    }
}
