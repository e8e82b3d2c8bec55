//! Watching records: coming, reading, going.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;

use super::changes::ChangeBatch;
use super::clients::{ClientId, fresh_id};
use super::command::Command;
use super::fault::Trial;
use super::transaction::Transaction;
use super::wait::WaitContext;
use crate::engine::{RecordEvent, RecordEvents, Scope};
use crate::error::{ErrorKind, Result};

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

#[derive(Debug)]
pub(super) struct EnterWatcher(pub(super) u64, pub(super) Scope);

impl Command for EnterWatcher {
    /// The version from which on it hears of everything.
    type Answer = u64;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<u64> {
        transaction.enter_watcher(self.0, &self.1)
    }
}

#[derive(Debug)]
pub(super) struct LeaveWatcher(pub(super) u64);

impl Command for LeaveWatcher {
    type Answer = ();

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<()> {
        transaction.leave_watcher(self.0)
    }
}

#[derive(Debug)]
pub(super) struct ReadNews {
    pub(super) id: u64,
    pub(super) scope: Scope,
    pub(super) cursor: u64,
}

impl Command for ReadNews {
    type Answer = Option<ChangeBatch>;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Option<ChangeBatch>> {
        transaction.news(self.id, &self.scope, self.cursor)
    }
}

/// A watcher's look for what nobody has noticed.
#[derive(Debug)]
pub(super) struct LookAround;

#[derive(Debug)]
pub(super) struct Around {
    /// There are records that are over.
    pub(super) ended: bool,
    /// Whose death would end more.
    pub(super) keepers: Vec<ClientId>,
}

impl Command for LookAround {
    type Answer = Around;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Around> {
        Ok(Around { ended: transaction.has_ended_records()?, keepers: transaction.keepers()? })
    }
}

/// Ends what is over.
#[derive(Debug)]
pub(super) struct SweepUp;

impl Command for SweepUp {
    type Answer = ();

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<()> {
        transaction.sweep().map(drop)
    }
}
