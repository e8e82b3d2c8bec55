//! Watching records where changes are written down: a watcher is rung, and reads
//! on from where it was.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::engine::{RecordEvent, RecordEvents};
use crate::error::{ErrorKind, Result};

/// The watchers of one client, to be rung.
#[derive(Debug, Default)]
pub(in crate::engines) struct RecordWatchers(Mutex<WatcherList>);

#[derive(Debug, Default)]
struct WatcherList {
    notifiers: HashMap<u64, Arc<Notify>>,
    closed: bool,
}

impl RecordWatchers {
    fn list(&self) -> MutexGuard<'_, WatcherList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may have changed that one of them watches.
    pub(in crate::engines) fn ring(&self) {
        self.list().notifiers.values().for_each(|notify| notify.notify_one());
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(in crate::engines) fn is_empty(&self) -> bool {
        self.list().notifiers.is_empty()
    }

    pub(in crate::engines) fn close(&self) {
        self.list().closed = true;
        self.ring();
    }

    pub(in crate::engines) fn is_closed(&self) -> bool {
        self.list().closed
    }
}

/// How far a reader of changes has come.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines) struct ReadUpTo {
    /// All up to this version has been read.
    pub(in crate::engines) cursor: u64,
    /// There may be more to read at once.
    pub(in crate::engines) more: bool,
}

/// Where the changes are written down that one watcher reads.
pub(in crate::engines) trait ChangeSource: Debug + Send + Sync {
    /// All watchers of this client.
    fn watchers(&self) -> &RecordWatchers;

    /// By which the watcher is known.
    fn id(&self) -> u64;

    /// Comes to watch; the version from which on changes are written down.
    fn begin(&mut self) -> impl Future<Output = Result<u64>> + Send;

    /// Enters the list again.
    fn enter(&mut self) -> impl Future<Output = Result<u64>> + Send;

    /// Until it is rung, or there is reason to read all the same.
    fn rest(&mut self, rung: &Notify) -> impl Future<Output = ()> + Send;

    /// Reads on from `cursor` into `unseen`; `None` if the watcher is not on the
    /// list.
    fn read(
        &mut self,
        cursor: u64,
        unseen: &mut VecDeque<RecordEvent>,
    ) -> impl Future<Output = Result<Option<ReadUpTo>>> + Send;

    /// Leaves the list, without anyone waiting for it.
    fn leave(&self);
}

/// One watcher.
#[derive(Debug)]
pub(in crate::engines) struct RecordWatcher<S: ChangeSource> {
    source: S,
    notify: Arc<Notify>,
    cursor: u64,
    unseen: VecDeque<RecordEvent>,
    /// Whether there may be more to read at once.
    behind: bool,
}

impl<S: ChangeSource> RecordWatcher<S> {
    pub(in crate::engines) async fn start(source: S) -> Result<Self> {
        let notify = Arc::new(Notify::new());
        source.watchers().list().notifiers.insert(source.id(), Arc::clone(&notify));
        // Made before the request leaves, so that it leaves the list however
        // this ends.
        let mut watcher =
            Self { source, notify, cursor: 0, unseen: VecDeque::new(), behind: false };
        watcher.cursor = watcher.source.begin().await?;
        Ok(watcher)
    }

    async fn wait(&mut self) -> Option<RecordEvent> {
        loop {
            if let Some(event) = self.unseen.pop_front() {
                return Some(event);
            }
            if self.source.watchers().is_closed() {
                return None;
            }
            if !self.behind {
                self.source.rest(&self.notify).await;
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        // Whoever drops this call finds what it would have read.
        self.behind = true;
        let read = self.source.read(self.cursor, &mut self.unseen).await;
        self.behind = false;
        match read {
            Ok(Some(ReadUpTo { cursor, more })) => (self.cursor, self.behind) = (cursor, more),
            // Someone took us for dead.
            Ok(None) => {
                if let Ok(cursor) = self.source.enter().await {
                    self.cursor = cursor;
                    self.unseen.push_back(RecordEvent::Resync);
                }
            }
            // The next look will tell, unless there is none.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(_) => self.unseen.push_back(RecordEvent::Resync),
        }
    }
}

impl<S: ChangeSource> RecordEvents for RecordWatcher<S> {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl<S: ChangeSource> Drop for RecordWatcher<S> {
    fn drop(&mut self) {
        self.source.watchers().list().notifiers.remove(&self.source.id());
        self.source.leave();
    }
}
