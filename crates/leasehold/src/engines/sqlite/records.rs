//! Records: their table, as seen from inside one transaction, and what is asked
//! of it.

use rusqlite::{OptionalExtension, Row, params};

use super::command::StoreCommand;
use super::fault::Trial;
use super::name_range::NameRange;
use super::schema::{at, int, lease_key, moment, read_name};
use super::transaction::{BROOM, StoreTransaction};
use crate::claim::{LeaseId, RawRecord, Store, Ticket};
use crate::clock::Moment;
use crate::engine::records::{PageInProgress, not_held, sum};
use crate::engine::state::{Answer, SessionId, Verb};
use crate::engine::{Page, RecordListing, Scope};
use crate::name::Name;

/// A value up to this size is written on the caller's thread.
const QUICK: usize = 64 * 1024;

/// One row.
#[derive(Debug)]
pub(super) struct LoadedRecord {
    pub(super) record: RawRecord,
    expires: Option<Moment>,
    /// What keeps the lease alive that it is bound to.
    session: Option<SessionId>,
}

impl LoadedRecord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let version: i64 = row.get(0)?;
        let session: Option<i64> = row.get(3)?;
        Ok(Self {
            record: RawRecord::new(row.get(1)?, version.unsigned_abs()),
            expires: row.get::<_, Option<i64>>(2)?.map(moment),
            session: session.map(i64::unsigned_abs),
        })
    }
}

/// What keeps a new value: its time, and its lease.
#[derive(Clone, Copy, Debug, Default)]
struct RecordLifetime {
    expires: Option<Moment>,
    bound: Option<(LeaseId, SessionId)>,
}

impl StoreTransaction<'_> {
    fn row(&self, name: &Name) -> Trial<Option<LoadedRecord>> {
        const GET: &str = "SELECT version, value, expires, session FROM records \
             WHERE namespace = ?1 AND name = ?2";
        let key = [name.namespace().as_str(), name.as_str()];
        Ok(self.db.prepare_cached(GET)?.query_row(key, LoadedRecord::read).optional()?)
    }

    /// Whether a row is only there because nobody has removed it yet.
    pub(super) fn is_over(
        &mut self,
        expires: Option<Moment>,
        session: Option<SessionId>,
    ) -> Trial<bool> {
        if expires.is_some_and(|at| at <= self.now) {
            return Ok(true);
        }
        let Some(session) = session else { return Ok(false) };
        let Some(client) = self.sessions.live(session)?.map(|session| session.client) else {
            return Ok(true);
        };
        Ok(client != 0 && self.is_dead(client))
    }

    /// A record as it is now; changes nothing.
    pub(super) fn record(&mut self, name: &Name) -> Trial<Option<RawRecord>> {
        let Some(entry) = self.row(name)? else { return Ok(None) };
        let over = self.is_over(entry.expires, entry.session)?;
        Ok((!over).then_some(entry.record))
    }

    /// A record as it is now; what is over goes first.
    fn tidy_record(&mut self, name: &Name) -> Trial<Option<RawRecord>> {
        let Some(entry) = self.row(name)? else { return Ok(None) };
        if !self.is_over(entry.expires, entry.session)? {
            return Ok(Some(entry.record));
        }
        let session = entry.session.unwrap_or(0);
        self.reap_dead(&[session])?;
        self.remove_record(name)?;
        Ok(None)
    }

    /// Writes a record if the expectation holds.
    pub(super) fn store(&mut self, store: &Store) -> Trial<Result<u64, Option<RawRecord>>> {
        store.check()?;
        let found = self.tidy_record(&store.name)?;
        if !store.expect.holds(found.as_ref()) {
            return Ok(Err(found));
        }
        let Some(value) = &store.value else {
            let gone = found.map(|_| self.remove_record(&store.name)).transpose()?;
            return Ok(Ok(gone.map_or_else(|| self.draw(store.name.namespace()), Ok)?));
        };
        let bound = store.bound_to.as_ref().map(|ticket| self.bind(store, ticket)).transpose()?;
        let expires = store.ttl.map(|ttl| self.now.after(ttl));
        let version = self.draw(store.name.namespace())?;
        self.put_record(&store.name, version, value, RecordLifetime { expires, bound })?;
        Ok(Ok(version))
    }

    fn bind(&mut self, store: &Store, ticket: &Ticket) -> Trial<(LeaseId, SessionId)> {
        let mut loaded = self.load(&ticket.name, Some(ticket.id))?;
        let answer = self.step(&mut loaded, Verb::Bind { id: ticket.id })?;
        let seat = loaded.state.find(ticket.id);
        self.save(loaded)?;
        match (answer, seat) {
            (Answer::Held { .. }, Some((session, _))) => Ok((ticket.id, session)),
            _ => Err(not_held(store).into()),
        }
    }

    fn put_record(
        &mut self,
        name: &Name,
        version: u64,
        value: &[u8],
        stay: RecordLifetime,
    ) -> Trial<()> {
        const PUT: &str = "INSERT INTO records \
             (namespace, name, version, expires, bound, session, value) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET \
             version = excluded.version, expires = excluded.expires, bound = excluded.bound, \
             session = excluded.session, value = excluded.value";
        self.db.prepare_cached(PUT)?.execute(params![
            name.namespace().as_str(),
            name.as_str(),
            int(version),
            stay.expires.map(at),
            stay.bound.map(|(lease, _)| lease_key(lease)),
            stay.bound.map(|(_, session)| int(session)),
            value
        ])?;
        self.plan(stay.expires);
        self.log_change(name, version, Some(value))
    }

    /// Adds to a number; whatever keeps it stays as it is.
    pub(super) fn add(&mut self, name: &Name, amount: i64) -> Trial<i64> {
        const PUT: &str = "UPDATE records SET version = ?3, value = ?4 \
             WHERE namespace = ?1 AND name = ?2";
        let found = self.tidy_record(name)?;
        let sum = sum(name, found.as_ref(), amount)?;
        let (version, value) = (self.draw(name.namespace())?, sum.to_string().into_bytes());
        if found.is_none() {
            self.put_record(name, version, &value, RecordLifetime::default())?;
            return Ok(sum);
        }
        let row = params![name.namespace().as_str(), name.as_str(), int(version), value];
        self.db.prepare_cached(PUT)?.execute(row)?;
        self.log_change(name, version, Some(&value))?;
        Ok(sum)
    }

    /// Removes a record that is there; the version of the change.
    fn remove_record(&mut self, name: &Name) -> Trial<u64> {
        const CUT: &str = "DELETE FROM records WHERE namespace = ?1 AND name = ?2";
        self.db.prepare_cached(CUT)?.execute([name.namespace().as_str(), name.as_str()])?;
        let version = self.draw(name.namespace())?;
        self.log_change(name, version, None)?;
        Ok(version)
    }

    /// Removes what was bound to a lease that has ended.
    pub(super) fn unbind(&mut self, lease: LeaseId) -> Trial<()> {
        const FIND: &str = "SELECT namespace, name FROM records WHERE bound = ?1";
        let mut find = self.db.prepare_cached(FIND)?;
        let rows = find.query_map([lease_key(lease)], read_name)?.collect::<Result<Vec<_>, _>>()?;
        for name in rows.into_iter().flatten() {
            self.remove_record(&name)?;
        }
        Ok(())
    }

    /// Removes some of the records that are over.
    pub(super) fn end_records(&mut self) -> Trial<usize> {
        const LAPSED: &str = "SELECT namespace, name FROM records WHERE expires <= ?1 LIMIT ?2";
        // Leases that nobody asked for take theirs along when they are ended;
        // this is for a reader among others, whose name nobody looks at.
        const UNBOUND: &str = "SELECT namespace, name FROM sessions \
             JOIN records ON records.session = sessions.id WHERE sessions.expires <= ?1 LIMIT ?2";
        let mut ended = 0;
        for find in [LAPSED, UNBOUND] {
            let mut find = self.db.prepare_cached(find)?;
            let rows = find.query_map(params![at(self.now), int(BROOM)], read_name)?;
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            ended = ended.max(rows.len());
            for name in rows.into_iter().flatten() {
                self.remove_record(&name)?;
            }
        }
        Ok(ended)
    }
}

#[derive(Debug)]
pub(super) struct LoadRecord(pub(super) Name);

impl StoreCommand for LoadRecord {
    type Answer = Option<RawRecord>;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Option<RawRecord>> {
        transaction.record(&self.0)
    }
}

#[derive(Debug)]
pub(super) struct StoreRecord(pub(super) Store);

impl StoreCommand for StoreRecord {
    type Answer = Result<u64, Option<RawRecord>>;

    fn is_quick(&self) -> bool {
        self.0.value.as_ref().is_none_or(|value| value.len() <= QUICK)
    }

    fn is_lasting(&self) -> bool {
        self.0.lasting
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Self::Answer> {
        transaction.store(&self.0)
    }
}

#[derive(Debug)]
pub(super) struct AddRecord(pub(super) Name, pub(super) i64);

/// What was counted may never be counted again.
impl StoreCommand for AddRecord {
    type Answer = i64;

    fn is_lasting(&self) -> bool {
        true
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<i64> {
        transaction.add(&self.0, self.1)
    }
}

#[derive(Debug)]
pub(super) struct ListRecords {
    pub(super) scope: Scope,
    pub(super) page: Page,
}

impl StoreCommand for ListRecords {
    type Answer = RecordListing;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<RecordListing> {
        let mut page = PageInProgress::new(&self.page);
        let mut from = Some(self.scope.root().to_owned());
        while let Some(start) = from {
            from = self.walk(transaction, &start, &mut page)?;
        }
        Ok(page.done())
    }
}

impl ListRecords {
    /// Walks the index from `start` on, up to something that is too deep: user
    /// text never becomes a pattern. Says where to go on.
    fn walk(
        &self,
        transaction: &mut StoreTransaction<'_>,
        start: &str,
        page: &mut PageInProgress,
    ) -> Trial<Option<String>> {
        const COLUMNS: &str = "name, version, expires, session, value";
        let range = NameRange::new(start, &self.page);
        let mut walk = transaction.db.prepare_cached(&range.sql(COLUMNS, "records"))?;
        let mut rows = walk.query([self.scope.namespace().as_str(), range.from])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            if !text.starts_with(self.scope.root()) {
                break;
            }
            let ahead = self.scope.leap(&text);
            if ahead.is_some() {
                return Ok(ahead);
            }
            if !self.show(transaction, text, row, page)? {
                break;
            }
        }
        Ok(None)
    }

    /// Puts a row on the page, unless it is over; false if the page is full.
    fn show(
        &self,
        transaction: &mut StoreTransaction<'_>,
        text: String,
        row: &Row<'_>,
        page: &mut PageInProgress,
    ) -> Trial<bool> {
        let session: Option<i64> = row.get(3)?;
        let expires = row.get::<_, Option<i64>>(2)?.map(moment);
        if transaction.is_over(expires, session.map(i64::unsigned_abs))? {
            return Ok(true);
        }
        let record = RawRecord::new(row.get(4)?, row.get::<_, i64>(1)?.unsigned_abs());
        Ok(page.add(Name::new(self.scope.namespace(), text)?, record))
    }
}
