//! One watch at the engine for all of one client that watch the same records.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinError;

use crate::engine::{Engine, RecordEvent, RecordEvents, Scope};
use crate::engines::WatchQueue;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// The watches of one client that are shared.
#[derive(Debug, Default)]
pub(crate) struct SharedWatches(Mutex<HashMap<Scope, Arc<SharedWatch>>>);

/// One watch, and those who hear of its news.
#[derive(Debug, Default)]
struct SharedWatch {
    begun: OnceCell<()>,
    hearers: Mutex<Hearers>,
    /// The last one has left.
    deserted: Notify,
}

#[derive(Debug, Default)]
struct Hearers {
    queues: Vec<Arc<WatchQueue>>,
    /// The engine was closed.
    ended: bool,
}

/// One who hears of the news of some watches, until it is dropped.
pub(crate) struct Hearer {
    watches: Arc<SharedWatches>,
    scopes: Vec<(Scope, Arc<SharedWatch>)>,
    queue: Arc<WatchQueue>,
}

impl fmt::Debug for Hearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hearer")
    }
}

impl SharedWatches {
    fn open(&self) -> MutexGuard<'_, HashMap<Scope, Arc<SharedWatch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever enters hears from now on, once the watch has begun.
    pub(crate) fn enter(self: &Arc<Self>, scopes: &[Scope]) -> Hearer {
        let queue = Arc::new(WatchQueue::default());
        let mut open = self.open();
        let enter = |scope: &Scope| {
            let watch = Arc::clone(open.entry(scope.clone()).or_default());
            watch.enter(&queue);
            (scope.clone(), watch)
        };
        let scopes = scopes.iter().map(enter).collect();
        Hearer { watches: Arc::clone(self), scopes, queue }
    }

    /// The last one out ends the watch.
    fn leave(&self, scope: &Scope, watch: &Arc<SharedWatch>, queue: &Arc<WatchQueue>) {
        let mut open = self.open();
        if watch.leave(queue) {
            open.remove(scope);
        }
    }

    /// How many watches there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.open().len()
    }
}

impl SharedWatch {
    fn hearers(&self) -> MutexGuard<'_, Hearers> {
        self.hearers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, queue: &Arc<WatchQueue>) {
        let mut hearers = self.hearers();
        hearers.queues.push(Arc::clone(queue));
        if hearers.ended {
            queue.close();
        }
    }

    /// True if nobody is left.
    fn leave(&self, queue: &Arc<WatchQueue>) -> bool {
        let mut hearers = self.hearers();
        hearers.queues.retain(|other| !Arc::ptr_eq(other, queue));
        let deserted = hearers.queues.is_empty();
        if deserted {
            self.deserted.notify_one();
        }
        deserted
    }

    fn tell(&self, event: &RecordEvent) {
        self.hearers().queues.iter().for_each(|queue| queue.push(event.clone()));
    }

    fn end(&self) {
        let mut hearers = self.hearers();
        hearers.ended = true;
        hearers.queues.iter().for_each(|queue| queue.close());
    }

    /// Begins to watch, if nobody has yet.
    async fn begin(
        self: &Arc<Self>,
        scope: &Scope,
        engine: &Arc<dyn Engine>,
        home: &Handle,
    ) -> Result<()> {
        let begun = self.begun.get_or_try_init(|| async {
            let events = watch(scope.clone(), engine, home).await?;
            home.spawn(Arc::clone(self).pass_on(events));
            Ok(())
        });
        begun.await.copied()
    }

    async fn pass_on(self: Arc<Self>, mut events: Box<dyn RecordEvents>) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.deserted.notified() => return,
                event = events.next() => event,
            };
            match event {
                Some(event) => self.tell(&event),
                None => return self.end(),
            }
        }
    }
}

/// A task of its own, for an engine's call is driven to its end whoever gives up.
async fn watch(
    scope: Scope,
    engine: &Arc<dyn Engine>,
    home: &Handle,
) -> Result<Box<dyn RecordEvents>> {
    let records = engine.records().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the engine keeps no records; use one that does")
    })?;
    let died = |died: JoinError| Err(Error::new(ErrorKind::Unexpected, died.to_string()));
    home.spawn(records.watch(scope)).await.unwrap_or_else(died)
}

impl Hearer {
    /// From here on nothing is left out without a `Resync` in its place.
    pub(crate) async fn begin(&self, engine: &Arc<dyn Engine>, home: &Handle) -> Result<()> {
        for (scope, watch) in &self.scopes {
            watch.begin(scope, engine, home).await?;
        }
        Ok(())
    }

    /// The next change; `None` once the engine is closed. Nothing is lost if this is
    /// dropped.
    pub(crate) async fn next(&self) -> Option<RecordEvent> {
        loop {
            if let Some(next) = self.queue.pop() {
                return next;
            }
            self.queue.news().await;
        }
    }
}

impl Drop for Hearer {
    fn drop(&mut self) {
        for (scope, watch) in &self.scopes {
            self.watches.leave(scope, watch, &self.queue);
        }
    }
}
