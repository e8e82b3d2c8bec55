//! Watching records: coming, reading, going.

use super::super::changes::ChangeBatch;
use super::super::clients::ClientId;
use super::super::command::Command;
use super::super::fault::Trial;
use super::super::transaction::Transaction;
use crate::engine::Scope;

#[derive(Debug)]
pub(in super::super) struct EnterWatcher(pub(in super::super) u64, pub(in super::super) Scope);

impl Command for EnterWatcher {
    /// The version from which on it hears of everything.
    type Answer = u64;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<u64> {
        transaction.enter_watcher(self.0, &self.1)
    }
}

#[derive(Debug)]
pub(in super::super) struct LeaveWatcher(pub(in super::super) u64);

impl Command for LeaveWatcher {
    type Answer = ();

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<()> {
        transaction.leave_watcher(self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct ReadNews {
    pub(in super::super) id: u64,
    pub(in super::super) scope: Scope,
    pub(in super::super) cursor: u64,
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
pub(in super::super) struct LookAround;

#[derive(Debug)]
pub(in super::super) struct Around {
    /// There are records that are over.
    pub(in super::super) ended: bool,
    /// Whose death would end more.
    pub(in super::super) keepers: Vec<ClientId>,
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
pub(in super::super) struct SweepUp;

impl Command for SweepUp {
    type Answer = ();

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<()> {
        transaction.sweep().map(drop)
    }
}
