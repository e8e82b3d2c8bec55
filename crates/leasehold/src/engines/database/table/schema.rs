//! The tables: made on first use, by one client at a time, and versioned.

use super::names::TableNames;
use super::text::{SqlText, fill};
use crate::engines::database::dialect::table::TableDraft;
use crate::engines::database::pool::Pool;
use crate::error::{Error, ErrorKind, Result};

/// The newest layout this code knows.
const VERSION: i64 = 2;

/// `KEY`, `WORD`, `LONG` and `BLOB` are what the families call differently.
const TABLES: [(&str, &str); 9] = [
    (
        "meta",
        "CREATE TABLE IF NOT EXISTS {meta} (
    word WORD NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
)",
    ),
    (
        "namespaces",
        "CREATE TABLE IF NOT EXISTS {namespaces} (
    namespace WORD NOT NULL PRIMARY KEY,
    floor BIGINT NOT NULL,  -- no fence of a name that was forgotten is larger
    version BIGINT NOT NULL, -- the newest of a record
    cut BIGINT NOT NULL      -- changes up to this version are forgotten
)",
    ),
    (
        "names",
        "CREATE TABLE IF NOT EXISTS {names} (
    namespace WORD NOT NULL,
    name KEY NOT NULL,
    owner LABEL,             -- who holds it, or held it last
    description REMARK,      -- what the owner says about it
    created BIGINT NOT NULL, -- times are microseconds since 1970
    updated BIGINT NOT NULL,
    version BIGINT NOT NULL, -- grows with every change
    fence BIGINT NOT NULL,   -- the newest
    lease WORD,              -- set while somebody holds it alone and nobody waits
    watch BIGINT,            -- one of the sessions that keep it
    sessions LONG,           -- all of those whose leases hold it
    front BIGINT,            -- set while somebody waits: the first place in the line
    forget_at BIGINT,        -- set while nobody holds it or waits
    state LONG,              -- null: free, with nothing to remember
    PRIMARY KEY (namespace, name)
)",
    ),
    (
        "seats",
        "CREATE TABLE IF NOT EXISTS {seats} (
    namespace WORD NOT NULL, -- who waits for a name, in the order of the places
    name KEY NOT NULL,
    place BIGINT NOT NULL,
    lease WORD NOT NULL,
    session BIGINT NOT NULL,
    seat LONG NOT NULL,
    PRIMARY KEY (namespace, name, place),
    UNIQUE (lease, namespace, name) -- this way round no server takes it for the line
)",
    ),
    (
        "sessions",
        "CREATE TABLE IF NOT EXISTS {sessions} (
    id BIGINT NOT NULL PRIMARY KEY,
    client BIGINT NOT NULL,
    ttl BIGINT NOT NULL,
    delay BIGINT NOT NULL,    -- the longest lock delay of its leases
    expires BIGINT NOT NULL,
    fixed BIGINT NOT NULL     -- 1 if it keeps one lease that is not renewed
)",
    ),
    (
        "losses",
        "CREATE TABLE IF NOT EXISTS {losses} (
    client BIGINT NOT NULL,
    lease WORD NOT NULL,
    at BIGINT NOT NULL,
    why LONG NOT NULL,       -- or the fence of one whose time was up
    PRIMARY KEY (client, lease)
)",
    ),
    (
        "records",
        "CREATE TABLE IF NOT EXISTS {records} (
    namespace WORD NOT NULL,
    name KEY NOT NULL,
    version BIGINT NOT NULL,
    expires BIGINT,          -- set if it has a ttl
    bound WORD,              -- the lease it goes with,
    session BIGINT,          -- and what keeps that alive
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
)",
    ),
    (
        "changes",
        "CREATE TABLE IF NOT EXISTS {changes} (
    namespace WORD NOT NULL,
    version BIGINT NOT NULL,
    name KEY NOT NULL,
    at BIGINT NOT NULL,
    value BLOB,              -- null: deleted
    PRIMARY KEY (namespace, version)
)",
    ),
    (
        "watchers",
        "CREATE TABLE IF NOT EXISTS {watchers} (
    id BIGINT NOT NULL PRIMARY KEY,
    client BIGINT NOT NULL,
    namespace WORD NOT NULL,
    expires BIGINT NOT NULL
)",
    ),
];

/// Which columns are looked up beside the keys; those of a table together.
const INDEXES: [(&str, &str); 9] = [
    ("names", "forget_at"),
    ("names", "watch"),
    ("seats", "session"),
    ("sessions", "expires"),
    ("records", "expires"),
    ("records", "bound"),
    ("records", "session"),
    ("changes", "at"),
    ("watchers", "namespace"),
];

/// All that has to be run, by whoever may.
pub(crate) fn text(names: &TableNames) -> String {
    let tables = TABLES.iter().map(|(word, table)| create(names, word, table));
    let first = format!("INSERT INTO {{meta}} VALUES ('version', {VERSION}), ('swept', 0)");
    tables.collect::<String>() + &fill(names, &names.family.insert_new(&first)) + ";\n"
}

fn create(names: &TableNames, word: &str, table: &str) -> String {
    let kinds = names.family.kinds();
    let create =
        kinds.iter().fold(fill(names, table), |sql, (ours, theirs)| sql.replace(ours, theirs));
    let indexed = INDEXES.iter().filter(|(of, _)| *of == word).map(|(_, column)| *column);
    names.family.table(&TableDraft {
        create,
        word,
        name: names.table(word),
        indexed: indexed.collect(),
        prefix: names.prefix(),
    })
}

/// Makes the tables unless they are there; refuses those of another release.
pub(super) async fn prepare(pool: &Pool, names: &TableNames) -> Result<()> {
    let mut found = version(pool, names).await?;
    if found.is_none() {
        make(pool, names).await?;
        // Another release may have come first at the same time.
        found = version(pool, names).await?;
    }
    match found {
        Some(VERSION) => Ok(()),
        Some(other) => Err(other_layout(other, names)),
        None => Err(no_layout(names)),
    }
}

fn other_layout(found: i64, names: &TableNames) -> Error {
    let advice = if found < VERSION {
        "stop all clients of the older release and drop its tables"
    } else {
        "use the release that made them"
    };
    let message = format!(
        "the tables have layout {found}, this release knows {VERSION}: {advice}, or use other \
         tables (option \"prefix\")"
    );
    Error::new(ErrorKind::Unsupported, message).with("table", names.table("meta"))
}

fn no_layout(names: &TableNames) -> Error {
    let message = "the tables do not say which layout they have: drop them, or use other tables \
         (option \"prefix\")";
    Error::new(ErrorKind::Unsupported, message).with("table", names.table("meta"))
}

/// The layout that is there; looks first, because a role that may only use the
/// tables may not create any.
async fn version(pool: &Pool, names: &TableNames) -> Result<Option<i64>> {
    let there = SqlText::new(names, names.family.counts_table());
    let reply = pool.run(&there.sql, there.values(vec![names.table("meta").into()])).await?;
    if reply.rows.first().map_or(Ok(0), |row| row.int(0))? == 0 {
        return Ok(None);
    }
    let read = SqlText::new(names, "SELECT value FROM {meta} WHERE word = 'version'");
    let reply = pool.run(&read.sql, Vec::new()).await?;
    reply.rows.first().map(|row| row.int(0)).transpose()
}

/// Many clients may come first at the same time.
async fn make(pool: &Pool, names: &TableNames) -> Result<()> {
    for statements in names.family.making(&names.word(), &text(names)) {
        pool.batch(&statements).await?;
    }
    Ok(())
}
