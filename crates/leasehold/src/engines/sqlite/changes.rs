//! What has changed, for those who watch.
//!
//! A change is written down only if somebody watches it. Watchers are rung
//! once it stands, and read from here; a ring that gets lost costs time.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::clients::ClientId;
use super::fault::Trial;
use super::schema::{at, int};
use super::transaction::StoreTransaction;
use crate::claim::RawRecord;
use crate::engine::{RecordEvent, Scope};
use crate::name::{Name, Namespace};

/// How often others look whether a watcher still lives.
pub(super) const WATCHER_LOOK: Duration = Duration::from_secs(60);
/// How long changes are kept for those who are slow.
pub(super) const KEEP: Duration = Duration::from_secs(60);
/// How many changes are kept, however many there are.
const KEPT: i64 = 4096;
/// A value larger than this is not kept twice: who reads of the change finds
/// it in its record, or else has to load again.
const COPIED: usize = 64 * 1024;
/// How many changes are forgotten at a time.
const BROOM: u64 = 1024;
/// How many changes, and how many bytes, are read at a time.
const READ: u64 = 256;
const READ_BYTES: usize = 4 * 1024 * 1024;

/// Some news for a watcher.
#[derive(Debug, Default)]
pub(super) struct ChangeBatch {
    pub(super) events: Vec<RecordEvent>,
    /// All up to this version have been read.
    pub(super) cursor: u64,
    pub(super) more: bool,
    /// Whose death would be news, too.
    pub(super) keepers: Vec<ClientId>,
}

/// One row.
struct ChangeRow {
    version: u64,
    name: Arc<str>,
    kind: ChangeKind,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    Deleted = 0,
    Stored = 1,
    /// The value is in its record, or lost.
    Large = 2,
}

impl ChangeRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = match row.get::<_, i64>(2)? {
            0 => ChangeKind::Deleted,
            1 => ChangeKind::Stored,
            _ => ChangeKind::Large,
        };
        let version = row.get::<_, i64>(0)?.unsigned_abs();
        Ok(Self { version, name: row.get(1)?, kind, value: row.get(3)? })
    }
}

impl StoreTransaction<'_> {
    /// Who watches in a namespace.
    fn listeners(&mut self, namespace: &Namespace) -> Trial<&[(ClientId, Scope)]> {
        if !self.listeners.contains_key(namespace) {
            const ALL: &str = "SELECT client, root, depth FROM watchers WHERE namespace = ?1";
            let read = |row: &Row<'_>| {
                let (client, depth): (i64, i64) = (row.get(0)?, row.get(2)?);
                let root: String = row.get(1)?;
                let depth = usize::try_from(depth).unwrap_or(usize::MAX);
                Ok((client.unsigned_abs(), Scope::below(namespace, &root, depth)))
            };
            let mut all = self.db.prepare_cached(ALL)?;
            let rows = all.query_map([namespace.as_str()], read)?.collect::<Result<Vec<_>, _>>()?;
            self.listeners.insert(namespace.clone(), rows);
        }
        Ok(self.listeners.get(namespace).map_or(&[], Vec::as_slice))
    }

    /// Writes a change down, if anybody watches.
    pub(super) fn log_change(
        &mut self,
        name: &Name,
        version: u64,
        value: Option<&[u8]>,
    ) -> Trial<()> {
        let hearers = self.listeners(name.namespace())?.iter();
        let hearers: Vec<ClientId> =
            hearers.filter(|(_, scope)| scope.covers(name)).map(|(client, _)| *client).collect();
        if hearers.is_empty() {
            return Ok(());
        }
        self.after_commit.rung.extend(hearers);
        self.write_change(name, version, value)?;
        self.plan(Some(self.now.after(KEEP)));
        Ok(())
    }

    fn write_change(&mut self, name: &Name, version: u64, value: Option<&[u8]>) -> Trial<()> {
        const PUT: &str = "INSERT INTO changes (namespace, version, name, at, kind, value) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (kind, value) = match value {
            None => (ChangeKind::Deleted, [].as_slice()),
            Some(value) if value.len() <= COPIED => (ChangeKind::Stored, value),
            Some(_) => (ChangeKind::Large, [].as_slice()),
        };
        let (space, text) = (name.namespace().as_str(), name.as_str());
        let row = params![space, int(version), text, at(self.now), kind as i64, value];
        self.db.prepare_cached(PUT)?.execute(row)?;
        let oldest = self.db.last_insert_rowid().saturating_sub(KEPT);
        self.forget_changes(
            "DELETE FROM changes WHERE id <= ?1 RETURNING namespace, version",
            &[oldest],
        )?;
        Ok(())
    }

    /// Forgets some of the changes that even slow watchers have read.
    pub(super) fn end_changes(&mut self) -> Trial<usize> {
        const CUT: &str = "DELETE FROM changes WHERE id IN \
             (SELECT id FROM changes WHERE at <= ?1 ORDER BY id LIMIT ?2) \
             RETURNING namespace, version";
        let gone = self.forget_changes(CUT, &[at(self.now.before(KEEP)), int(BROOM)])?;
        Ok(if gone as u64 >= BROOM { gone } else { 0 })
    }

    /// Notes up to where changes are forgotten: who has not read that far has
    /// missed something.
    fn forget_changes(&mut self, cut: &str, row: &[i64]) -> Trial<usize> {
        const NOTE: &str = "INSERT INTO fences (namespace, last, cut) VALUES (?1, ?2, ?2) \
             ON CONFLICT DO UPDATE SET cut = max(cut, excluded.cut)";
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        let mut cut = self.db.prepare_cached(cut)?;
        let rows = cut.query_map(rusqlite::params_from_iter(row), read)?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        for (namespace, version) in &rows {
            self.db.prepare_cached(NOTE)?.execute(params![namespace, version])?;
        }
        Ok(rows.len())
    }

    /// Enters a watcher; the version from which on it hears of everything.
    pub(super) fn enter_watcher(&mut self, id: u64, scope: &Scope) -> Trial<u64> {
        const PUT: &str = "INSERT OR REPLACE INTO watchers (id, client, namespace, root, depth) \
             VALUES (?1, ?2, ?3, ?4, ?5)";
        let depth = i64::try_from(scope.depth()).unwrap_or(i64::MAX);
        let (client, space) = (int(self.client), scope.namespace().as_str());
        let row = params![int(id), client, space, scope.root(), depth];
        self.db.prepare_cached(PUT)?.execute(row)?;
        self.listeners.remove(scope.namespace());
        // Drawn, so that the counter is on disk and cannot start below it.
        self.draw(scope.namespace())
    }

    pub(super) fn leave_watcher(&mut self, id: u64) -> Trial<()> {
        self.db.prepare_cached("DELETE FROM watchers WHERE id = ?1")?.execute([int(id)])?;
        self.listeners.clear();
        Ok(())
    }

    /// A client is gone, and its watchers with it.
    pub(super) fn leave_watchers(&mut self, client: ClientId) -> Trial<()> {
        const CUT: &str = "DELETE FROM watchers WHERE client = ?1";
        self.db.prepare_cached(CUT)?.execute([int(client)])?;
        self.listeners.clear();
        Ok(())
    }

    /// Strikes dead watchers off the list. A ring finds them out too, but not
    /// if they died with it in their hands, or nothing changes any more.
    pub(super) fn end_watchers(&mut self) -> Trial<()> {
        const ALL: &str = "SELECT DISTINCT client FROM watchers WHERE client <> ?1 LIMIT ?2";
        let mut all = self.db.prepare_cached(ALL)?;
        let rows = all.query_map([int(self.client), int(BROOM)], |row| row.get::<_, i64>(0))?;
        let clients = rows.collect::<Result<Vec<_>, _>>()?;
        for client in clients.iter().map(|client| client.unsigned_abs()) {
            let _ = self.is_dead(client) && self.reap(client)?;
        }
        Ok(())
    }

    /// What a watcher has not read yet; `None` if it is not on the list.
    pub(super) fn news(
        &mut self,
        id: u64,
        scope: &Scope,
        cursor: u64,
    ) -> Trial<Option<ChangeBatch>> {
        let mut known = self.db.prepare_cached("SELECT 1 FROM watchers WHERE id = ?1")?;
        if !known.exists([int(id)])? {
            return Ok(None);
        }
        let (last, cut) = self.marks(scope.namespace())?;
        if cut > cursor {
            let events = vec![RecordEvent::Resync];
            return Ok(Some(ChangeBatch {
                events,
                cursor: last.max(cut),
                ..ChangeBatch::default()
            }));
        }
        let mut news = self.read_changes(scope, cursor, last)?;
        if !news.events.is_empty() {
            news.keepers = self.keepers()?;
        }
        Ok(Some(news))
    }

    /// The last version that was drawn, and the last that was forgotten.
    fn marks(&self, namespace: &Namespace) -> Trial<(u64, u64)> {
        const GET: &str = "SELECT last, cut FROM fences WHERE namespace = ?1";
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let found =
            self.db.prepare_cached(GET)?.query_row([namespace.as_str()], read).optional()?;
        Ok(found.map_or((0, 0), |(last, cut)| (last.unsigned_abs(), cut.unsigned_abs())))
    }

    fn read_changes(&self, scope: &Scope, cursor: u64, last: u64) -> Trial<ChangeBatch> {
        const ALL: &str = "SELECT version, name, kind, value FROM changes \
             WHERE namespace = ?1 AND version > ?2 ORDER BY version LIMIT ?3";
        let mut all = self.db.prepare_cached(ALL)?;
        let mut rows = all.query(params![scope.namespace().as_str(), int(cursor), int(READ)])?;
        let (mut news, mut bytes, mut count) = (ChangeBatch::default(), 0, 0);
        while let Some(row) = rows.next()? {
            let change = ChangeRow::read(row)?;
            (news.cursor, count) = (change.version, count + 1);
            let Ok(name) = Name::new(scope.namespace(), Arc::clone(&change.name)) else { continue };
            if scope.covers(&name) {
                let event = self.event(name, change)?;
                bytes += weight(&event);
                news.events.push(event);
            }
            if count == READ || bytes > READ_BYTES {
                news.more = true;
                return Ok(news);
            }
        }
        news.cursor = news.cursor.max(cursor).max(last);
        Ok(news)
    }

    fn event(&self, name: Name, change: ChangeRow) -> Trial<RecordEvent> {
        const GET: &str = "SELECT value FROM records \
             WHERE namespace = ?1 AND name = ?2 AND version = ?3";
        let stored = |value| RawRecord::new(value, change.version);
        match change.kind {
            ChangeKind::Deleted => return Ok(RecordEvent::Deleted(name, change.version)),
            ChangeKind::Stored => return Ok(RecordEvent::Stored(name, stored(change.value))),
            ChangeKind::Large => {}
        }
        let key = params![name.namespace().as_str(), name.as_str(), int(change.version)];
        let found = self.db.prepare_cached(GET)?.query_row(key, |row| row.get(0)).optional()?;
        Ok(found.map_or(RecordEvent::Resync, |value| RecordEvent::Stored(name, stored(value))))
    }

    /// Whose death would end a record.
    pub(super) fn keepers(&self) -> Trial<Vec<ClientId>> {
        const FIND: &str = "SELECT DISTINCT client FROM sessions WHERE client NOT IN (0, ?1) \
             AND EXISTS (SELECT 1 FROM records WHERE session = sessions.id) LIMIT 64";
        let mut find = self.db.prepare_cached(FIND)?;
        let rows = find.query_map([int(self.client)], |row| row.get::<_, i64>(0))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(i64::unsigned_abs).collect())
    }

    /// Whether any record is over and still there.
    pub(super) fn has_ended_records(&self) -> Trial<bool> {
        const ANY: &str = "SELECT EXISTS (SELECT 1 FROM records WHERE expires <= ?1) OR EXISTS \
             (SELECT 1 FROM sessions JOIN records ON records.session = sessions.id \
             WHERE sessions.expires <= ?1)";
        Ok(self.db.prepare_cached(ANY)?.query_row([at(self.now)], |row| row.get(0))?)
    }
}

fn weight(event: &RecordEvent) -> usize {
    match event {
        RecordEvent::Stored(_, record) => record.value.len(),
        _ => 0,
    }
}
