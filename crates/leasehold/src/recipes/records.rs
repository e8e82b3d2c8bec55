//! Many records: those below a path, and what becomes of them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::record::{Versioned, decode};
use crate::engine::{Page, RecordEvent, RecordEvents, Scope};
use crate::error::Result;
use crate::locks::Locks;
use crate::name::Name;

/// How many changes are on their way to a watcher that does not look.
const AHEAD: usize = 16;

/// The records below a path.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// locks.record("price/apple").set(&3).await?;
/// locks.record("price/pear").set(&4).await?;
///
/// let prices = locks.records::<u32>("price").list(1).await?;
/// assert_eq!(prices[1].0.as_str(), "price/pear");
/// assert_eq!(prices[1].1.value, 4);
/// # Ok(()) }
/// ```
pub struct Records<T> {
    locks: Locks,
    path: Arc<str>,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Records<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Records").field(&self.path).finish()
    }
}

impl Locks {
    /// The records below `path`; needs the cargo feature `records`. `""` is
    /// above all. Of several engines that names are routed to, it shows the
    /// one that the path is routed to.
    #[must_use]
    pub fn records<T: Serialize + DeserializeOwned>(&self, path: impl AsRef<str>) -> Records<T> {
        let path: Arc<str> = path.as_ref().into();
        let below = if path.is_empty() || path.ends_with('/') { "" } else { "/" };
        let locks = self.routed(&format!("{path}{below}")).clone();
        Records { locks, path, kind: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned + Send> Records<T> {
    fn scope(&self, depth: usize) -> Scope {
        Scope::below(self.locks.own_namespace(), &self.path, depth)
    }

    /// All records, by name in byte order, at most `depth` segments below the
    /// path: 1 for its direct children, `usize::MAX` for all.
    ///
    /// It is read page by page: each record as it was at some moment, not all
    /// as they were at one.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`](crate::Record::get).
    pub async fn list(&self, depth: usize) -> Result<Vec<(Name, Versioned<T>)>> {
        let (mut all, mut page) = (Vec::new(), Page::default());
        loop {
            let record_store = self.locks.record_store()?;
            let found = self.locks.at_home(|| record_store.list(self.scope(depth), page)).await?;
            for (name, record) in &found.records {
                all.push((name.clone(), decode(name, record)?));
            }
            match found.records.into_iter().next_back() {
                Some((last, _)) if found.more => page = Page::after(last),
                _ => return Ok(all),
            }
        }
    }

    /// Changes of the records at most `depth` segments below the path, from
    /// now on.
    ///
    /// # Errors
    ///
    /// Those of [`Record::get`](crate::Record::get).
    pub async fn watch(&self, depth: usize) -> Result<Watch<T>> {
        Watch::start(&self.locks, self.scope(depth)).await
    }
}

/// A change of a watched record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<T> {
    /// It has a new value.
    Stored(Name, Versioned<T>),
    /// It was deleted, its time was up, or the lease it was bound to ended.
    Deleted(Name),
    /// Changes may have been missed: get or list again.
    Resync,
}

/// Changes of records, in the order they were made: each of them, or a
/// [`Change::Resync`] in place of those that are missing.
///
/// Start to watch, then read: what changes in between comes as news.
pub struct Watch<T> {
    events: mpsc::Receiver<RecordEvent>,
    _locks: Locks,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl<T: DeserializeOwned> Watch<T> {
    pub(crate) async fn start(locks: &Locks, scope: Scope) -> Result<Self> {
        let record_store = locks.record_store()?;
        let watching = locks.at_home(|| record_store.watch(scope)).await?;
        let (forward, events) = mpsc::channel(AHEAD);
        locks.spawn(pass_on(watching, forward));
        Ok(Self { events, _locks: locks.clone(), kind: PhantomData })
    }

    /// The next change; `None` once the locks were shut down.
    ///
    /// # Errors
    ///
    /// `Unexpected` if a value is not a `T`; the watch goes on.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses nothing.
    pub async fn next(&mut self) -> Result<Option<Change<T>>> {
        Ok(match self.events.recv().await {
            None => None,
            Some(RecordEvent::Stored(name, record)) => {
                let found = decode(&name, &record)?;
                Some(Change::Stored(name, found))
            }
            Some(RecordEvent::Deleted(name)) => Some(Change::Deleted(name)),
            Some(RecordEvent::Resync) => Some(Change::Resync),
        })
    }
}

/// Engines are asked on home, wherever the watcher is polled.
async fn pass_on(mut watching: Box<dyn RecordEvents>, forward: mpsc::Sender<RecordEvent>) {
    loop {
        let event = tokio::select! {
            biased;
            () = forward.closed() => return,
            event = watching.next() => event,
        };
        let Some(event) = event else { return };
        if forward.send(event).await.is_err() {
            return;
        }
    }
}
