//! Watching records.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::clients::fresh_id;
use super::verbs::{Around, EnterWatcher, LeaveWatcher, LookAround, ReadNews, SweepUp};
use super::wait::WaitContext;
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::error::{ErrorKind, Result};

/// The watchers of this client, to be rung.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<WatchNotifiers>);

#[derive(Debug, Default)]
struct WatchNotifiers {
    notifiers: HashMap<u64, Arc<Notify>>,
    closed: bool,
}

impl Watchers {
    fn notifiers(&self) -> MutexGuard<'_, WatchNotifiers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed that one of them watches.
    pub(super) fn ring(&self) {
        self.notifiers().notifiers.values().for_each(|notify| notify.notify_one());
    }

    pub(super) fn close(&self) {
        self.notifiers().closed = true;
        self.ring();
    }

    fn is_closed(&self) -> bool {
        self.notifiers().closed
    }
}

/// One watcher.
#[derive(Debug)]
pub(super) struct Watching {
    id: u64,
    scope: Scope,
    context: WaitContext,
    notify: Arc<Notify>,
    cursor: u64,
    unseen: VecDeque<RecordEvent>,
    /// Whether there may be more to read at once.
    behind: bool,
}

impl Watching {
    pub(super) async fn start(context: WaitContext, scope: Scope) -> Result<Self> {
        let (id, notify) = (fresh_id(), Arc::new(Notify::new()));
        context.watchers.notifiers().notifiers.insert(id, Arc::clone(&notify));
        let (unseen, behind) = (VecDeque::new(), false);
        // Made before the request leaves, so that it leaves the list however
        // this ends.
        let mut watching = Self { id, scope, context, notify, cursor: 0, unseen, behind };
        watching.enter().await?;
        watching.look_around().await;
        Ok(watching)
    }

    async fn enter(&mut self) -> Result<()> {
        let enter = EnterWatcher(self.id, self.scope.clone());
        self.cursor = self.context.handle.ask(enter).await?;
        Ok(())
    }

    async fn wait(&mut self) -> Option<RecordEvent> {
        loop {
            if let Some(event) = self.unseen.pop_front() {
                return Some(event);
            }
            if self.context.watchers.is_closed() {
                return None;
            }
            if !self.behind {
                self.rest().await;
            }
            self.read().await;
        }
    }

    /// Until it is rung, or has heard nothing for a while.
    async fn rest(&self) {
        let clock = &self.context.clock;
        tokio::select! {
            biased;
            () = self.notify.notified() => {}
            () = clock.sleep_until(clock.now().after(self.context.poll)) => {
                self.look_around().await;
            }
        }
    }

    /// Looks for what nobody has noticed: a dead client, a time that is up.
    async fn look_around(&self) {
        let Ok(Around { ended, keepers }) = self.context.handle.ask(LookAround).await else {
            return;
        };
        self.context.death_watch.watch(&keepers);
        if ended {
            // If it fails, the next look will do it.
            let _ = self.context.handle.ask(SweepUp).await;
        }
    }

    async fn read(&mut self) {
        let (id, scope, cursor) = (self.id, self.scope.clone(), self.cursor);
        // Whoever drops this call finds what it would have read.
        self.behind = true;
        let read = self.context.handle.ask(ReadNews { id, scope, cursor }).await;
        self.behind = false;
        match read {
            Ok(Some(news)) => {
                (self.cursor, self.behind) = (news.cursor, news.more);
                self.unseen.extend(news.events);
                self.context.death_watch.watch(&news.keepers);
            }
            // Someone took us for dead.
            Ok(None) => {
                if self.enter().await.is_ok() {
                    self.unseen.push_back(RecordEvent::Resync);
                }
            }
            // The next look will tell, unless there is none.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(_) => self.unseen.push_back(RecordEvent::Resync),
        }
    }
}

impl RecordEvents for Watching {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>> {
        Box::pin(self.wait())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.context.watchers.notifiers().notifiers.remove(&self.id);
        self.context.handle.tell(LeaveWatcher(self.id));
    }
}
