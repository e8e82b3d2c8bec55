//! A watch: changes of records, as they come.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::versioned::{Versioned, decode};
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::error::Result;
use crate::locks::Locks;
use crate::name::Name;

/// How many changes are on their way to a watcher that does not look.
const AHEAD: usize = 16;

/// A change of a watched record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<T> {
    /// It has a new value.
    Stored(Name, Versioned<T>),
    /// It was deleted, its time was up, or the lease it was bound to ended; and
    /// the version of that: larger than that of the value that went, and smaller
    /// than that of whatever is stored later.
    Deleted(Name, u64),
    /// Changes may have been missed: get or list again.
    Resync,
}

/// Changes of records, in the order they were made: each of them, or a
/// [`Change::Resync`] in place of those that are missing.
///
/// Start to watch, then read: what changes in between comes as news.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Change;
///
/// let price = locks.record::<u32>("price/apple");
/// let mut changes = price.watch().await?;
/// price.set(&3).await?;
/// match changes.next().await? {
///     Some(Change::Stored(name, found)) => println!("{}: {}", name.as_str(), found.value),
///     Some(Change::Resync) => println!("read it again: {:?}", price.get().await?),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
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
            Some(RecordEvent::Deleted(name, version)) => Some(Change::Deleted(name, version)),
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
