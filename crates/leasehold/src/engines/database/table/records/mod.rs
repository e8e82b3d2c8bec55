//! Versioned values beside the leases.
//!
//! Every change draws its version from the row of its namespace and keeps that
//! row to the end of its transaction: versions come to stand in their order,
//! and a watcher that has read one has missed none before it.

pub(super) mod change_log;
mod list;
pub(super) mod statements;
mod watch;

use std::time::Duration;

use self::statements::drawn;
pub(super) use self::watch::TableChanges;
use super::client::TableClient;
use super::columns::{int, key, span};
use super::errand::Errand;
use super::row::NameRow;
use super::swap::Tries;
use super::sweep::{self, BROOM};
use super::text::SqlText;
use super::text::step;
use crate::claim::{Expect, LeaseId, RawRecord, Store, Ticket};
use crate::engine::records::{not_held, sum};
use crate::engine::state::{Answer, SessionId, Verb};
use crate::engines::database::drivers::{Reply, ReplyRow, SqlStep, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// What is added by the database is less, whatever its sign: then the sum fits.
const ADDED: u64 = 1_000_000_000_000_000_000;

/// One row.
#[derive(Debug)]
struct RecordRow {
    record: RawRecord,
    /// Whether it is only there because nobody has removed it yet.
    over: bool,
}

impl RecordRow {
    fn read(row: &ReplyRow) -> Result<Option<Self>> {
        let Some(version) = row.maybe_int(1)? else { return Ok(None) };
        let now = row.int(0)?;
        let lapsed = row.maybe_int(3)?.is_some_and(|at| at <= now);
        let bound = row.maybe_int(4)?.is_some();
        let unbound = bound && row.maybe_int(5)?.is_none_or(|at| at <= now);
        let record = RawRecord::new(row.bytes(2)?.to_vec(), version.unsigned_abs());
        Ok(Some(Self { record, over: lapsed || unbound }))
    }

    fn living(self) -> Option<RawRecord> {
        (!self.over).then_some(self.record)
    }
}

fn entry(reply: &Reply) -> Result<Option<RecordRow>> {
    reply.rows.first().map_or(Ok(None), RecordRow::read)
}

/// What keeps a new value: its time, and its lease.
#[derive(Clone, Copy, Debug, Default)]
struct Retention {
    ttl: Option<Duration>,
    bound: Option<(LeaseId, SessionId)>,
}

impl TableClient {
    async fn entry(&self, name: &Name) -> Result<Option<RecordRow>> {
        entry(&self.run(&self.records.load, self.key(name).to_vec()).await?)
    }

    /// A record as it is now; changes nothing.
    pub(super) async fn record(&self, name: &Name) -> Result<Option<RawRecord>> {
        Ok(self.entry(name).await?.and_then(RecordRow::living))
    }

    /// What `first` says, and the record as it is after that.
    pub(super) async fn and_record(
        &self,
        first: SqlStep,
        name: &Name,
    ) -> Result<(Reply, Option<RawRecord>)> {
        let look = step(&self.records.load, self.key(name).to_vec(), false);
        let [said, found] = self.pool.run_both(first, look).await?;
        let found = entry(&found).map_err(Error::unknown)?;
        Ok((said, found.and_then(RecordRow::living)))
    }

    /// A record as it is now; what is over goes first.
    async fn tidy_record(&self, name: &Name) -> Result<Option<RawRecord>> {
        match self.entry(name).await? {
            Some(entry) if entry.over => {
                self.remove(name, entry.record.version).await?;
                Ok(None)
            }
            entry => Ok(entry.map(|entry| entry.record)),
        }
    }

    /// Makes sure that the namespace has a row to draw from.
    pub(super) async fn enter_space(&self, space: &Namespace) -> Result<()> {
        if !self.namespaces.contains(space) {
            self.run(&self.records.space, vec![space.as_str().into()]).await?;
            self.namespaces.insert(space);
        }
        Ok(())
    }

    /// Writes a record if the expectation holds.
    pub(super) async fn store(&self, store: Store) -> Result<Result<u64, Option<RawRecord>>> {
        store.check()?;
        self.enter_space(store.name.namespace()).await?;
        let mut tries = Tries::new(&self.clock);
        loop {
            let blind = store.expect == Expect::Any && store.value.is_some();
            let found = if blind { None } else { self.tidy_record(&store.name).await? };
            if !blind && !store.expect.holds(found.as_ref()) {
                return Ok(Err(found));
            }
            let done = match &store.bound_to {
                Some(ticket) if store.value.is_some() => {
                    self.store_bound(&store, ticket, found.as_ref()).await?
                }
                _ => self.transact(self.writing(&store, found.as_ref(), None)).await?,
            };
            if let Some(version) = done {
                self.wrote(store.name.namespace()).await;
                return Ok(Ok(version));
            }
            tries.pause().await?;
        }
    }

    /// Runs a transaction that draws first; the version, unless someone else
    /// was faster.
    async fn transact(&self, steps: Vec<SqlStep>) -> Result<Option<u64>> {
        let replies = self.pool.transact(steps).await?;
        replies.map(|replies| drawn(replies.first())).transpose()
    }

    /// Binds and writes in one transaction.
    async fn store_bound(
        &self,
        store: &Store,
        ticket: &Ticket,
        found: Option<&RawRecord>,
    ) -> Result<Option<u64>> {
        let act = |page: &mut NameRow| {
            let answer = page.step(Verb::Bind { id: ticket.id });
            let seat = page.state.find(ticket.id);
            let (Answer::Held { .. }, Some((session, _))) = (answer, seat) else {
                return Err(not_held(store));
            };
            page.with = self.writing(store, found, Some((ticket.id, session)));
            Ok(())
        };
        let errand = Errand::to(&ticket.name).about(ticket.id);
        let done = self.attempt(errand, act).await?;
        done.map(|((), page)| drawn(page.replies.as_ref().and_then(|all| all.get(1)))).transpose()
    }

    /// The steps of a write: draw, write, tell.
    fn writing(
        &self,
        store: &Store,
        found: Option<&RawRecord>,
        bound: Option<(LeaseId, SessionId)>,
    ) -> Vec<SqlStep> {
        let [space, _] = self.key(&store.name);
        let draw = step(&self.records.draw, vec![space], true);
        let stay = Retention { ttl: store.ttl, bound };
        let write = match (&store.value, found) {
            (None, None) => return vec![draw],
            (None, Some(record)) => self.deletion(&store.name, record.version),
            (Some(value), Some(record)) => {
                let mut values = self.row(&store.name, value, stay);
                values.push(int(record.version).into());
                step(&self.records.replace, values, true)
            }
            (Some(value), None) => {
                let any = store.expect == Expect::Any;
                let put = if any { &self.records.upsert } else { &self.records.insert };
                step(put, self.row(&store.name, value, stay), true)
            }
        };
        vec![draw, write, self.telling(&self.records.log, &store.name, store.value.as_deref())]
    }

    /// The steps of a write that goes with a release: it expects nothing.
    pub(super) fn ending(&self, store: &Store) -> Vec<SqlStep> {
        if store.value.is_some() {
            return self.writing(store, None, None);
        }
        let [space, name] = self.key(&store.name);
        vec![
            step(&self.records.draw, vec![space.clone()], true),
            self.telling(&self.records.log_there, &store.name, None),
            step(&self.records.delete_any, vec![space, name], false),
        ]
    }

    fn row(&self, name: &Name, value: &[u8], stay: Retention) -> Vec<Value> {
        let [space, name] = self.key(name);
        vec![
            space,
            name,
            stay.ttl.map(span).into(),
            stay.bound.map(|(lease, _)| key(lease)).into(),
            stay.bound.map(|(_, session)| int(session)).into(),
            value.into(),
        ]
    }

    fn deletion(&self, name: &Name, version: u64) -> SqlStep {
        let [space, name] = self.key(name);
        step(&self.records.delete, vec![space, name, int(version).into()], true)
    }

    fn telling(&self, log: &SqlText, name: &Name, value: Option<&[u8]>) -> SqlStep {
        let [space, text] = self.key(name);
        step(log, vec![space, text, value.into(), super::news::CHANGED.into()], false)
    }

    /// Removes a record, unless it is another one by now.
    async fn remove(&self, name: &Name, version: u64) -> Result<()> {
        self.enter_space(name.namespace()).await?;
        let [space, _] = self.key(name);
        let steps = vec![
            step(&self.records.draw, vec![space], true),
            self.deletion(name, version),
            self.telling(&self.records.log, name, None),
        ];
        self.transact(steps).await?;
        Ok(())
    }

    /// Adds to a number; whatever keeps it stays as it is.
    pub(super) async fn add(&self, name: Name, amount: i64) -> Result<i64> {
        self.enter_space(name.namespace()).await?;
        let mut tries = Tries::new(&self.clock);
        loop {
            let mut sum = self.add_there(&name, amount).await?;
            if sum.is_none() {
                sum = self.add_anew(&name, amount).await?;
            }
            if let Some(sum) = sum {
                self.wrote(name.namespace()).await;
                return Ok(sum);
            }
            tries.pause().await?;
        }
    }

    /// Lets the database add, which nobody can get in the way of; `None` if there
    /// is nothing, or something that is not so simple.
    pub(super) async fn add_there(&self, name: &Name, amount: i64) -> Result<Option<i64>> {
        if amount.unsigned_abs() >= ADDED {
            return Ok(None);
        }
        let [space, text] = self.key(name);
        let key = || vec![space.clone(), text.clone()];
        let with = |value| [key(), vec![value]].concat();
        let steps = vec![
            step(&self.records.draw, vec![space.clone()], true),
            step(&self.records.add, with(amount.into()), true),
            step(&self.records.load, key(), false),
            step(&self.records.log_sum, with(super::news::CHANGED.into()), false),
        ];
        let Some(replies) = self.pool.transact(steps).await? else { return Ok(None) };
        let added = replies.get(2).map(entry).transpose().map_err(Error::unknown)?.flatten();
        let missing = || Error::new(ErrorKind::Unexpected, "no sum came back").unknown();
        let record = added.ok_or_else(missing)?.record;
        sum(name, Some(&record), 0).map(Some).map_err(Error::unknown)
    }

    /// Adds here, and writes the sum if nobody was faster.
    async fn add_anew(&self, name: &Name, amount: i64) -> Result<Option<i64>> {
        let found = self.tidy_record(name).await?;
        let sum = sum(name, found.as_ref(), amount)?;
        let value = sum.to_string().into_bytes();
        let [space, text] = self.key(name);
        let write = match &found {
            None => step(&self.records.insert, self.row(name, &value, Retention::default()), true),
            Some(record) => {
                let version = int(record.version).into();
                let values = vec![space.clone(), text, value.as_slice().into(), version];
                step(&self.records.revalue, values, true)
            }
        };
        let draw = step(&self.records.draw, vec![space], true);
        let log = self.telling(&self.records.log, name, Some(&value));
        Ok(self.transact(vec![draw, write, log]).await?.map(|_| sum))
    }

    /// Removes what was bound to leases that have ended. Nobody sees it any
    /// more; those who watch have to hear of it.
    pub(super) async fn end_bound(&self, leases: &[LeaseId]) -> Result<()> {
        for lease in leases {
            let reply = self.run(&self.records.bound, vec![key(*lease).into()]).await?;
            self.remove_all(&reply.rows).await?;
        }
        Ok(())
    }

    /// Removes some of the records that are over; says how many there were.
    pub(super) async fn end_records(&self) -> Result<usize> {
        let many = || vec![sweep::count(BROOM)];
        let mut count = self.run(&self.records.unseen, many()).await?.affected as usize;
        for find in [&self.records.lapsed, &self.records.unbound] {
            let reply = self.run(find, many()).await?;
            self.remove_all(&reply.rows).await?;
            count += reply.rows.len();
        }
        Ok(count)
    }

    async fn remove_all(&self, rows: &[ReplyRow]) -> Result<()> {
        for row in rows {
            self.remove(&self.full_name(row, 0)?, row.int(2)?.unsigned_abs()).await?;
        }
        Ok(())
    }
}
