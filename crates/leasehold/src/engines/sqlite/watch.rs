//! Watching records: coming, reading, going.

use std::collections::VecDeque;

use tokio::sync::Notify;

use super::changes::ChangeBatch;
use super::clients::{ClientId, fresh_id};
use super::command::StoreCommand;
use super::fault::Trial;
use super::transaction::StoreTransaction;
use super::wait::WaitContext;
use crate::engine::{RecordEvent, Scope};
use crate::engines::kit::record_watch::{ChangeSource, ReadUpTo, RecordWatcher, RecordWatchers};
use crate::error::Result;

/// The changes of a store that one watcher reads.
#[derive(Debug)]
pub(super) struct StoreChanges {
    id: u64,
    scope: Scope,
    context: WaitContext,
}

impl StoreChanges {
    pub(super) async fn watch(context: WaitContext, scope: Scope) -> Result<RecordWatcher<Self>> {
        RecordWatcher::start(Self { id: fresh_id(), scope, context }).await
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
}

impl ChangeSource for StoreChanges {
    fn watchers(&self) -> &RecordWatchers {
        &self.context.watchers
    }

    fn id(&self) -> u64 {
        self.id
    }

    async fn begin(&mut self) -> Result<u64> {
        let cursor = self.enter().await?;
        self.look_around().await;
        Ok(cursor)
    }

    async fn enter(&mut self) -> Result<u64> {
        self.context.handle.ask(EnterWatcher(self.id, self.scope.clone())).await
    }

    /// Until it is rung, or has heard nothing for a while.
    async fn rest(&mut self, rung: &Notify) {
        let clock = &self.context.clock;
        tokio::select! {
            biased;
            () = rung.notified() => {}
            () = clock.sleep_until(clock.now().after(self.context.poll)) => {
                self.look_around().await;
            }
        }
    }

    async fn read(
        &mut self,
        cursor: u64,
        unseen: &mut VecDeque<RecordEvent>,
    ) -> Result<Option<ReadUpTo>> {
        let (id, scope) = (self.id, self.scope.clone());
        let news = self.context.handle.ask(ReadNews { id, scope, cursor }).await?;
        let Some(ChangeBatch { events, cursor, more, keepers }) = news else { return Ok(None) };
        unseen.extend(events);
        self.context.death_watch.watch(&keepers);
        Ok(Some(ReadUpTo { cursor, more }))
    }

    fn leave(&self) {
        self.context.handle.tell(LeaveWatcher(self.id));
    }
}

#[derive(Debug)]
struct EnterWatcher(u64, Scope);

impl StoreCommand for EnterWatcher {
    /// The version from which on it hears of everything.
    type Answer = u64;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<u64> {
        transaction.enter_watcher(self.0, &self.1)
    }
}

#[derive(Debug)]
struct LeaveWatcher(u64);

impl StoreCommand for LeaveWatcher {
    type Answer = ();

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<()> {
        transaction.leave_watcher(self.0)
    }
}

#[derive(Debug)]
struct ReadNews {
    id: u64,
    scope: Scope,
    cursor: u64,
}

impl StoreCommand for ReadNews {
    type Answer = Option<ChangeBatch>;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Option<ChangeBatch>> {
        transaction.news(self.id, &self.scope, self.cursor)
    }
}

/// A watcher's look for what nobody has noticed.
#[derive(Debug)]
struct LookAround;

#[derive(Debug)]
struct Around {
    /// There are records that are over.
    ended: bool,
    /// Whose death would end more.
    keepers: Vec<ClientId>,
}

impl StoreCommand for LookAround {
    type Answer = Around;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Around> {
        Ok(Around { ended: transaction.has_ended_records()?, keepers: transaction.keepers()? })
    }
}

/// Ends what is over.
#[derive(Debug)]
struct SweepUp;

impl StoreCommand for SweepUp {
    type Answer = ();

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<()> {
        transaction.sweep().map(drop)
    }
}
