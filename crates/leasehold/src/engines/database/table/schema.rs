//! The tables: made on first use, by one client at a time, and versioned.

use super::names::TableNames;
use super::text::{SqlText, fill};
use crate::engines::database::dialect::Dialect;
use crate::engines::database::pool::Pool;
use crate::error::{Error, ErrorKind, Result};

/// The newest layout this code knows.
const VERSION: i64 = 1;

/// `KEY`, `WORD`, `LONG` and `BLOB` are what the families call differently.
const TABLES: [(&str, &str); 8] = [
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
    sessions LONG,           -- all of them
    forget_at BIGINT,        -- set while nobody holds it or waits
    state LONG,              -- null: free, with nothing to remember
    PRIMARY KEY (namespace, name)
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
const INDEXES: [(&str, &str); 8] = [
    ("names", "forget_at"),
    ("names", "watch"),
    ("sessions", "expires"),
    ("records", "expires"),
    ("records", "bound"),
    ("records", "session"),
    ("changes", "at"),
    ("watchers", "namespace"),
];

/// All that has to be run, by whoever may.
pub(crate) fn text(names: &TableNames) -> String {
    let mut all = String::new();
    for (word, table) in TABLES {
        all.push_str(&create(names, table, word));
        all.push_str(";\n");
        if names.dialect == Dialect::Postgres {
            for (of, column) in INDEXES.iter().filter(|(of, _)| *of == word) {
                let name = names.index(&format!("{of}_{column}"));
                let table = names.table(of);
                all.push_str(&format!(
                    "CREATE INDEX IF NOT EXISTS {name} ON {table} ({column}) WHERE {column} IS NOT NULL;\n"
                ));
            }
        }
    }
    all.push_str(&fill(names, first_rows(names.dialect)));
    all
}

const fn first_rows(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "INSERT INTO {meta} VALUES ('version', 1), ('swept', 0) ON CONFLICT DO NOTHING;\n"
        }
        Dialect::Mysql => "INSERT IGNORE INTO {meta} VALUES ('version', 1), ('swept', 0);\n",
    }
}

fn create(names: &TableNames, table: &str, word: &str) -> String {
    let filled = fill(names, table);
    let kinds: [(&str, &str); 6] = match names.dialect {
        Dialect::Postgres => [
            (" WORD", " TEXT COLLATE \"C\""),
            (" KEY NOT", " TEXT COLLATE \"C\" NOT"),
            (" LABEL", " TEXT"),
            (" REMARK", " TEXT"),
            (" LONG", " TEXT"),
            (" BLOB", " BYTEA"),
        ],
        // Names in bytes: every collation but the newest pads with blanks.
        Dialect::Mysql => [
            (" WORD", " VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin"),
            (" KEY NOT", " VARBINARY(255) NOT"),
            (" LABEL", " VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" REMARK", " VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" LONG", " LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
            (" BLOB", " LONGBLOB"),
        ],
    };
    let sql = kinds.iter().fold(filled, |sql, (ours, theirs)| sql.replace(ours, theirs));
    if names.dialect == Dialect::Postgres {
        return sql;
    }
    let body = sql.trim_end_matches(')').trim_end();
    let mut sql = body.to_owned();
    for (_, column) in INDEXES.iter().filter(|(of, _)| *of == word) {
        sql.push_str(&format!("\n    , INDEX {} ({column})", names.index(column)));
    }
    sql + "\n) ENGINE = InnoDB"
}

/// Makes the tables unless they are there; refuses those of a newer release.
pub(super) async fn prepare(pool: &Pool, names: &TableNames) -> Result<()> {
    match version(pool, names).await? {
        Some(VERSION) => Ok(()),
        Some(newer) => Err(too_new(newer, names)),
        None => make(pool, names).await,
    }
}

fn too_new(found: i64, names: &TableNames) -> Error {
    let message = format!(
        "the tables have layout {found}, this release knows {VERSION}: use the release that made \
         them, or other tables (option \"prefix\")"
    );
    Error::new(ErrorKind::Unsupported, message).with("table", names.table("meta"))
}

/// The layout that is there; looks first, because a role that may only use the
/// tables may not create any.
async fn version(pool: &Pool, names: &TableNames) -> Result<Option<i64>> {
    let there = match names.dialect {
        Dialect::Postgres => "SELECT (to_regclass($1::text) IS NOT NULL)::int::bigint",
        Dialect::Mysql => {
            "SELECT COUNT(*) FROM information_schema.tables \
             WHERE CONCAT(table_schema, '.', table_name) = IF(LOCATE('.', $1), $1, \
             CONCAT(DATABASE(), '.', $1))"
        }
    };
    let there = SqlText::new(names, there);
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
    match names.dialect {
        Dialect::Postgres => pool.batch(&in_turn(names)).await,
        // Its statements about tables queue by themselves, one at a time.
        Dialect::Mysql => {
            let text = text(names);
            for statement in text.split(";\n").filter(|it| !it.trim().is_empty()) {
                pool.batch(statement).await?;
            }
            Ok(())
        }
    }
}

/// `IF NOT EXISTS` alone does not stop two who create at the same time.
fn in_turn(names: &TableNames) -> String {
    let word = names.word();
    format!(
        "BEGIN; SET LOCAL client_min_messages = warning; \
         SELECT pg_advisory_xact_lock(hashtextextended('leasehold {word}', 0));\n{}COMMIT;",
        text(names)
    )
}
