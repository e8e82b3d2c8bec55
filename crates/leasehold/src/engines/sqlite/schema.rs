//! The tables, what they say of the store itself, and how values look in them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::claim::LeaseId;
use crate::clock::{Moment, wall_micros};
use crate::error::Error;
use crate::name::{Name, Namespace};

/// "LsHd": how SQLite files say whose they are.
pub(super) const APPLICATION: i32 = 0x4c73_4864;
/// The layout this code knows: another one is refused.
pub(super) const VERSION: i32 = 3;

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
CREATE TABLE seats ( -- those who wait, in the order of their places
    namespace TEXT NOT NULL, name TEXT NOT NULL, place INTEGER NOT NULL,
    lease TEXT NOT NULL, session INTEGER NOT NULL, seat TEXT NOT NULL,
    PRIMARY KEY (namespace, name, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX seats_by_lease ON seats (namespace, name, lease);
CREATE INDEX seats_by_session ON seats (session);
CREATE TABLE fences (
    namespace TEXT PRIMARY KEY, last INTEGER NOT NULL,
    cut INTEGER NOT NULL DEFAULT 0 -- the newest change forgotten
) STRICT, WITHOUT ROWID;
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

/// Records, who watches them, and what has changed.
const RECORDS: &str = "
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

/// Creates the tables of a new store in one piece. This runs before it is put
/// into WAL mode, so that the file itself says whose it is at once.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    if one("SELECT count(*) FROM sqlite_schema")? > 0 {
        return Ok(());
    }
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION}; \
         PRAGMA user_version = {VERSION}; {TABLES} {RECORDS} COMMIT;"
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

pub(super) fn number(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    Ok(get(db, key)?.and_then(|text| text.parse().ok()))
}

pub(super) fn set(db: &Connection, key: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
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

/// A number as SQLite stores it.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A moment as SQLite stores it.
pub(super) fn at(moment: Moment) -> i64 {
    int(moment.nanos())
}

/// A span as SQLite stores it.
pub(super) fn span(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// A moment that SQLite stored.
pub(super) fn moment(value: i64) -> Moment {
    Moment::from_nanos(value.unsigned_abs())
}

/// A lease id as SQLite stores it.
pub(super) fn lease_key(lease: LeaseId) -> String {
    format!("{:032x}", lease.to_bits())
}

/// A lease id that SQLite stored; `None` if the row is damaged.
pub(super) fn lease_id(key: &str) -> Option<LeaseId> {
    u128::from_str_radix(key, 16).ok().map(LeaseId::from_bits)
}

/// A name from two columns; the inner error is that of a damaged row.
pub(super) fn read_name(row: &Row<'_>) -> rusqlite::Result<Result<Name, Error>> {
    let (space, text): (Arc<str>, Arc<str>) = (row.get(0)?, row.get(1)?);
    Ok(Namespace::new(space).and_then(|space| Name::new(&space, text)))
}
