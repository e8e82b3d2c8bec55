//! Watching records: coming, reading, going.

use super::super::changes::News;
use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::Ledger;
use super::super::roster::ClientId;
use crate::engine::Scope;

#[derive(Debug)]
pub(in super::super) struct EnterWatcher(pub(in super::super) u64, pub(in super::super) Scope);

impl Act for EnterWatcher {
    /// The version from which on it hears of everything.
    type Answer = u64;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<u64> {
        ledger.enter_watcher(self.0, &self.1)
    }
}

#[derive(Debug)]
pub(in super::super) struct LeaveWatcher(pub(in super::super) u64);

impl Act for LeaveWatcher {
    type Answer = ();

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<()> {
        ledger.leave_watcher(self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct ReadNews {
    pub(in super::super) id: u64,
    pub(in super::super) scope: Scope,
    pub(in super::super) cursor: u64,
}

impl Act for ReadNews {
    type Answer = Option<News>;
    const READS: bool = true;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Option<News>> {
        ledger.news(self.id, &self.scope, self.cursor)
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

impl Act for LookAround {
    type Answer = Around;
    const READS: bool = true;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Around> {
        Ok(Around { ended: ledger.has_ended_records()?, keepers: ledger.keepers()? })
    }
}

/// Ends what is over.
#[derive(Debug)]
pub(in super::super) struct SweepUp;

impl Act for SweepUp {
    type Answer = ();

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<()> {
        ledger.sweep().map(drop)
    }
}
