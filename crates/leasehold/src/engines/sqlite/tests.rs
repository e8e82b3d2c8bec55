//! The engine on real files, with more than one client in this process.

mod calls;
mod core;
mod damage;
mod death;
mod doors;
mod line;
mod records;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::command::StoreCommand;
use super::fault::Trial;
use super::transaction::StoreTransaction;
use super::*;
use crate::claim::{Grant, Owner, Stance};
use crate::clock::TestClock;
use crate::name::{Name, Namespace};

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A store in a folder of its own, on a clock that stands still.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) dir: TempDir,
    pub(super) clock: TestClock,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), clock: TestClock::new() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("locks.db")
    }

    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.path())
    }

    pub(super) async fn open(&self) -> Sqlite {
        Sqlite::open(self.options(), self.clock.clone().into()).await.unwrap()
    }

    pub(super) fn files(&self) -> Vec<String> {
        let mut files: Vec<_> = walk(self.dir.path());
        files.sort();
        files
    }
}

fn walk(dir: &std::path::Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| match path.is_dir() {
        true => walk(&path),
        false => vec![path.file_name().unwrap().to_string_lossy().into_owned()],
    };
    entries.flat_map(below).collect()
}

pub(super) fn name(text: &str) -> Name {
    Name::new(&Namespace::default(), text).unwrap()
}

pub(super) fn ticket(text: &str) -> Ticket {
    Ticket::new(name(text), Mode::Exclusive)
}

pub(super) fn claim(ticket: &Ticket) -> Claim {
    Claim::new(ticket.clone(), Owner::new("test"), TTL)
}

pub(super) fn waiting(ticket: &Ticket) -> Claim {
    Claim { stance: Stance::Wait { until: Moment::NEVER }, ..claim(ticket) }
}

pub(super) async fn take(engine: &Sqlite, ticket: &Ticket) -> Grant {
    granted(engine.acquire(claim(ticket)).await.unwrap())
}

pub(super) fn granted(verdict: Verdict) -> Grant {
    match verdict {
        Verdict::Granted(grant) => grant,
        Verdict::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(super) async fn queue(engine: &Sqlite, ticket: &Ticket) {
    match engine.acquire(waiting(ticket)).await.unwrap() {
        Verdict::Busy(busy) => assert!(busy.place.is_some()),
        Verdict::Granted(_) => panic!("granted at once"),
    }
}

pub(super) async fn give_back(engine: &Sqlite, ticket: &Ticket) -> Released {
    engine.release(ticket.clone(), Ending::new()).await.unwrap()
}

/// Asks SQLite for one number.
pub(super) struct Count(pub(super) &'static str);

impl StoreCommand for Count {
    type Answer = i64;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<i64> {
        Ok(transaction.db.query_row(self.0, [], |row| row.get(0))?)
    }
}

pub(super) async fn count(engine: &Sqlite, sql: &'static str) -> i64 {
    engine.context.handle.ask(Count(sql)).await.unwrap()
}
