//! The tables, and what happens to them when the machine was restarted.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Trial;
use super::sweep::read_name;
use super::transaction::{Transaction, at, int};
use crate::clock::{Moment, wall_micros};
use crate::engine::state::Verb;
use crate::name::Name;

/// "LsHd": how SQLite files say whose they are.
pub(super) const APPLICATION: i32 = 0x4c73_4864;
/// The newest layout this code knows.
pub(super) const VERSION: i32 = 2;
/// By how much fences jump when the last commits may have been lost.
pub(super) const FENCE_JUMP: u64 = 1 << 32;

const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE names (
    namespace TEXT NOT NULL, name TEXT NOT NULL,
    state TEXT NOT NULL,
    forget_at INTEGER, -- set while nobody holds it or waits
    watch INTEGER,     -- otherwise: one of the sessions in it
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX names_to_forget ON names (forget_at) WHERE forget_at IS NOT NULL;
CREATE INDEX names_to_watch ON names (watch) WHERE watch IS NOT NULL;
CREATE TABLE fences (namespace TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, client INTEGER NOT NULL, ttl INTEGER NOT NULL,
    delay INTEGER NOT NULL, expires INTEGER NOT NULL, fixed INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_expiry ON sessions (expires);
CREATE TABLE losses (
    session INTEGER NOT NULL, lease TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (session, lease)
) STRICT, WITHOUT ROWID;
";

/// What layout 2 adds: records, who watches them, and what has changed.
const RECORDS: &str = "
ALTER TABLE fences ADD COLUMN cut INTEGER NOT NULL DEFAULT 0; -- the newest change forgotten
CREATE TABLE records (
    namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL,
    expires INTEGER, -- set if it has a ttl
    bound TEXT,      -- the lease it goes with,
    session INTEGER, -- and what keeps that alive
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;
CREATE INDEX records_to_expire ON records (expires) WHERE expires IS NOT NULL;
CREATE INDEX records_by_lease ON records (bound) WHERE bound IS NOT NULL;
CREATE INDEX records_by_session ON records (session) WHERE session IS NOT NULL;
CREATE TABLE watchers (
    id INTEGER PRIMARY KEY, client INTEGER NOT NULL,
    namespace TEXT NOT NULL, root TEXT NOT NULL, depth INTEGER NOT NULL
) STRICT;
CREATE TABLE changes (
    id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, version INTEGER NOT NULL,
    name TEXT NOT NULL, at INTEGER NOT NULL, kind INTEGER NOT NULL, value BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX changes_by_version ON changes (namespace, version);
";

/// The tables as text, for those who want to see them.
pub(in crate::engines) fn text() -> String {
    format!(
        "PRAGMA application_id = {APPLICATION};\nPRAGMA user_version = {VERSION};{TABLES}{RECORDS}"
    )
}

/// Creates the tables of a new store in one piece, or those that an older one
/// lacks. This runs before a new store is put into WAL mode, so that the file
/// itself says whose it is at once.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let lacking = if one("SELECT count(*) FROM sqlite_schema")? == 0 {
        format!("{TABLES} {RECORDS}")
    } else if one("PRAGMA user_version")? == 1 {
        RECORDS.to_owned()
    } else {
        return Ok(());
    };
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION}; \
         PRAGMA user_version = {VERSION}; {lacking} COMMIT;"
    ))
}

/// The difference between the wall clock and the clock since boot, in
/// microseconds: it translates moments of another boot.
pub(super) fn offset(now: Moment) -> i64 {
    int(wall_micros()) - int(now.nanos() / 1000)
}

pub(super) fn get(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let mut get = db.prepare_cached("SELECT CAST(value AS TEXT) FROM meta WHERE key = ?1")?;
    get.query_row([key], |row| row.get(0)).optional()
}

fn number(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    Ok(get(db, key)?.and_then(|text| text.parse().ok()))
}

fn set(db: &Connection, key: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    let mut put = db.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?;
    put.execute(params![key, value]).map(drop)
}

/// Notes how the clocks stand, for whoever comes after a restart.
pub(super) fn note_clocks(db: &Connection, now: Moment) -> rusqlite::Result<()> {
    set(db, "clock_offset", offset(now))?;
    set(db, "clock_seen", at(now))
}

/// The offset that the store knows.
pub(super) fn known_offset(db: &Connection) -> rusqlite::Result<Option<i64>> {
    number(db, "clock_offset")
}

impl Transaction<'_> {
    /// Carries everything over to a new boot: its clock starts again at zero,
    /// all clients are dead, and the last commits may never have reached the
    /// disk.
    pub(super) fn reboot(&mut self, boot: &str) -> Trial<()> {
        set(self.db, "boot", boot)?;
        let Some(then) = self.old_now()? else { return Ok(note_clocks(self.db, self.now)?) };
        let jump = "UPDATE fences SET last = last + ?1";
        self.db.execute(jump, [int(FENCE_JUMP)])?;
        self.carry_records_over(then)?;
        let ended = self.old_sessions(then)?;
        for name in self.all_names()? {
            self.carry_over(&name, then, &ended)?;
        }
        self.db.execute_batch("DELETE FROM sessions; DELETE FROM losses;")?;
        self.sessions.clear();
        self.after_commit.follow_ups.clear();
        Ok(note_clocks(self.db, self.now)?)
    }

    /// What the old clock would show now; not earlier than it was last seen,
    /// because a wall clock that fell back would keep names closed for years.
    fn old_now(&self) -> Trial<Option<Moment>> {
        let (offset, seen) = (known_offset(self.db)?, number(self.db, "clock_seen")?);
        let (Some(offset), Some(seen)) = (offset, seen) else { return Ok(None) };
        let micros = int(wall_micros()).saturating_sub(offset);
        let nanos = micros.saturating_mul(1000).max(seen).max(0);
        Ok(Some(Moment::from_nanos(nanos.unsigned_abs())))
    }

    /// When the sessions of the old boot ended, on the new clock: at the
    /// latest now, since their processes are gone.
    fn old_sessions(&self, then: Moment) -> Trial<HashMap<u64, Moment>> {
        let mut all = self.db.prepare("SELECT id, expires FROM sessions")?;
        let read = |row: &rusqlite::Row<'_>| {
            let (id, expires): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((id.unsigned_abs(), super::transaction::moment(expires)))
        };
        let rows = all.query_map([], read)?;
        let on_new = |(id, expires)| (id, carried(expires, then, self.now).min(self.now));
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(on_new).collect())
    }

    fn all_names(&self) -> Trial<Vec<Name>> {
        let mut all = self.db.prepare("SELECT namespace, name FROM names")?;
        let rows = all.query_map([], read_name)?.collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().filter_map(Result::ok).collect())
    }

    /// Nobody watches any more, and what was bound has lost its lease.
    fn carry_records_over(&self, then: Moment) -> Trial<()> {
        const SHIFT: &str = "UPDATE records SET expires = max(0, expires + ?1) \
             WHERE expires IS NOT NULL";
        self.db.execute_batch(
            "DELETE FROM watchers; DELETE FROM changes; \
             DELETE FROM records WHERE bound IS NOT NULL;",
        )?;
        self.db.execute(SHIFT, [at(self.now).saturating_sub(at(then))])?;
        Ok(())
    }

    fn carry_over(&mut self, name: &Name, then: Moment, ended: &HashMap<u64, Moment>) -> Trial<()> {
        let now = self.now;
        let mut page = self.load(name)?;
        page.state.shift(|moment| carried(moment, then, now));
        page.state.follow(|session| ended.get(&session).copied().unwrap_or_default());
        self.step(&mut page, Verb::Tick)?;
        self.save(page)
    }
}

/// A moment of the old boot on the new clock.
fn carried(moment: Moment, then: Moment, now: Moment) -> Moment {
    now.after(moment.since(then)).before(then.since(moment))
}
