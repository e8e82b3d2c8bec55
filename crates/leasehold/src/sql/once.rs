//! Keys that are used once: a row each, written in the transaction whose work
//! they stand for.

use std::borrow::Cow;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::dialect::{Dialect, short};
use super::transaction::Transaction;
use crate::claim::LeaseId;
use crate::error::{Error, ErrorKind, Result};
use crate::hex;

/// The table of keys that [`Once::in_transaction`] uses: `leasehold_once`, unless
/// you name another one with [`Once::table`].
///
/// [`Once::in_transaction`]: crate::once::Once::in_transaction
/// [`Once::table`]: crate::once::Once::table
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceTable(Cow<'static, str>);

impl Default for OnceTable {
    fn default() -> Self {
        Self("leasehold_once".into())
    }
}

/// What a claim of a key found.
pub(crate) enum Claimed {
    /// Nobody has used it, or its time is up: it is ours if we commit. The text
    /// tells this claim from others.
    Ours(String),
    Before(Before),
}

/// What someone else has committed.
pub(crate) struct Before {
    /// The fingerprint, in hex.
    pub(crate) about: String,
    pub(crate) age: Duration,
    /// Nothing, if the transaction was committed without one.
    pub(crate) outcome: Option<Vec<u8>>,
}

impl OnceTable {
    /// The table of this name, which may have its schema before a dot.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that is none.
    pub fn new(table: impl Into<String>) -> Result<Self> {
        let table = table.into();
        Dialect::Postgres.table(&table)?;
        Ok(Self(table.into()))
    }

    /// The statements that create it, if it is not there. Empty for SQLite.
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> String {
        let table = self.quoted(dialect);
        match dialect {
            Dialect::Postgres => format!(
                "CREATE TABLE IF NOT EXISTS {table} (\n    \
                 name TEXT COLLATE \"C\" PRIMARY KEY,\n    \
                 run TEXT NOT NULL,\n    \
                 about TEXT NOT NULL,\n    \
                 at BIGINT NOT NULL,\n    \
                 until BIGINT NOT NULL,\n    \
                 outcome BYTEA\n);\n\
                 CREATE INDEX IF NOT EXISTS {} ON {table} (until);\n",
                self.index(dialect)
            ),
            Dialect::Mysql => format!(
                "CREATE TABLE IF NOT EXISTS {table} (\n    \
                 name VARBINARY(400) PRIMARY KEY,\n    \
                 run VARBINARY(32) NOT NULL,\n    \
                 about VARBINARY(32) NOT NULL,\n    \
                 at BIGINT NOT NULL,\n    \
                 until BIGINT NOT NULL,\n    \
                 outcome MEDIUMBLOB,\n    \
                 KEY {} (until)\n) ENGINE = InnoDB;\n",
                self.index(dialect)
            ),
            Dialect::Sqlite => String::new(),
        }
    }

    /// The statement that deletes at most a thousand keys whose time is up: for
    /// a job that runs now and then. Claims do not need it.
    #[must_use]
    pub fn sweep(&self, dialect: Dialect) -> String {
        let (table, now) = (self.quoted(dialect), now(dialect));
        match dialect {
            Dialect::Postgres => format!(
                "DELETE FROM {table} WHERE name IN (SELECT name FROM {table} \
                 WHERE until <= {now} ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED)"
            ),
            Dialect::Mysql => {
                format!("DELETE FROM {table} WHERE until <= {now} ORDER BY until LIMIT 1000")
            }
            Dialect::Sqlite => String::new(),
        }
    }

    /// Takes a key, or says who has. Waits for a transaction that has taken it
    /// and is not over.
    pub(crate) async fn claim(
        &self,
        tx: &mut impl Transaction,
        name: &str,
        about: &str,
        keep: Duration,
    ) -> Result<Claimed> {
        let run = format!("{:032x}", LeaseId::random().to_bits());
        let keep = keep.as_millis().min(1 << 60).to_string();
        let turn = self.turn(name).to_string();
        let values = [name, &run, about, &keep, &turn];
        let dialect = tx.dialect();
        let used = if dialect == Dialect::Postgres { 5 } else { 4 };
        let made = tx.run(&self.insert(dialect)?, &values[..used]).await?;
        if dialect == Dialect::Postgres && made.rows > 0 {
            return Ok(Claimed::Ours(run));
        }
        let found = tx.run(&self.select(dialect), &[name]).await?.first;
        let found = found.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "the row of the key has gone; run all of it again")
        })?;
        read(&found, &run).ok_or_else(garbled)
    }

    /// Writes down what the work came to.
    pub(crate) async fn fill(
        &self,
        tx: &mut impl Transaction,
        name: &str,
        run: &str,
        outcome: &[u8],
    ) -> Result<()> {
        let (table, dialect) = (self.quoted(tx.dialect()), tx.dialect());
        let statement = match dialect {
            Dialect::Postgres => {
                format!(
                    "UPDATE {table} SET outcome = decode($3, 'hex') WHERE name = $1 AND run = $2"
                )
            }
            _ => format!("UPDATE {table} SET outcome = UNHEX(?) WHERE name = ? AND run = ?"),
        };
        let outcome = hex::encode(outcome);
        let values = match dialect {
            Dialect::Postgres => [name, run, &outcome],
            _ => [&outcome, name, run],
        };
        match tx.run(&statement, &values).await?.rows {
            0 => Err(Error::new(ErrorKind::NotHeld, "the row of the key is not ours any more")),
            _ => Ok(()),
        }
    }

    /// Makes the row, or makes it anew if its time is up; leaves any other alone
    /// and, on MySQL, locked.
    fn insert(&self, dialect: Dialect) -> Result<String> {
        let (table, now) = (self.quoted(dialect), now(dialect));
        let columns = "name, run, about, at, until";
        match dialect {
            // Whoever works before it writes has the turn; we take it as well.
            Dialect::Postgres => Ok(format!(
                "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock($5::text::bigint)) \
                 INSERT INTO {table} AS t ({columns}) \
                 SELECT $1, $2, $3, {now}, {now} + $4::text::bigint FROM turn \
                 ON CONFLICT (name) DO UPDATE SET run = excluded.run, about = excluded.about, \
                 at = excluded.at, until = excluded.until, outcome = NULL \
                 WHERE t.until <= excluded.at RETURNING run"
            )),
            // Left to right: once `run` is the new one, the rest follows.
            Dialect::Mysql => Ok(format!(
                "INSERT INTO {table} ({columns}) VALUES (?, ?, ?, {now}, {now} + ?) \
                 ON DUPLICATE KEY UPDATE run = IF(until <= VALUES(at), VALUES(run), run), \
                 about = IF(run = VALUES(run), VALUES(about), about), \
                 outcome = IF(run = VALUES(run), NULL, outcome), \
                 at = IF(run = VALUES(run), VALUES(at), at), \
                 until = IF(run = VALUES(run), VALUES(until), until)"
            )),
            Dialect::Sqlite => Err(Error::new(
                ErrorKind::Unsupported,
                "keys in your own transaction are for PostgreSQL, MySQL and MariaDB",
            )),
        }
    }

    /// A row as one text. What others have committed since we began counts.
    fn select(&self, dialect: Dialect) -> String {
        let (table, now) = (self.quoted(dialect), now(dialect));
        match dialect {
            Dialect::Postgres => format!(
                "SELECT concat_ws(' ', run, about, {now} - at, encode(outcome, 'hex') || '.') \
                 FROM {table} WHERE name = $1"
            ),
            _ => format!(
                "SELECT CONCAT_WS(' ', run, about, {now} - at, CONCAT(HEX(outcome), '.')) \
                 FROM {table} WHERE name = ? FOR UPDATE"
            ),
        }
    }

    fn index(&self, dialect: Dialect) -> String {
        let bare = self.0.rsplit('.').next().unwrap_or(&self.0);
        dialect.column(&short(format!("{bare}_until"))).unwrap_or_default()
    }

    /// Checked when it was made.
    pub(super) fn quoted(&self, dialect: Dialect) -> String {
        dialect.table(&self.0).unwrap_or_default()
    }

    /// The number of the advisory lock of a name: whoever has it is at the key.
    /// If two names share one they wait for each other, no more.
    pub(super) fn turn(&self, name: &str) -> i64 {
        let hash = Sha256::digest(format!("leasehold once {} {name}", self.0));
        i64::from_be_bytes(*hash.first_chunk().unwrap_or(&[0; 8]))
    }
}

/// The server's clock, in milliseconds. MySQL's as the statement began: what it
/// reads later comes in the zone of the session, where an hour may come twice.
pub(super) const fn now(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "(extract(epoch from clock_timestamp()) * 1000)::bigint",
        _ => "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
    }
}

/// `run` and what [`Before`] reads.
fn read(row: &str, ours: &str) -> Option<Claimed> {
    let mut words = row.split(' ');
    let run = words.next()?;
    if run == ours {
        return Some(Claimed::Ours(run.to_owned()));
    }
    Before::read(words).map(Claimed::Before)
}

impl Before {
    /// `about age outcome.`; the last is missing where there is none.
    pub(super) fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (about, age) = (words.next()?.to_owned(), words.next()?.parse::<i64>().ok()?);
        let outcome = match words.next() {
            Some(text) => Some(hex::decode(text.strip_suffix('.')?)?),
            None => None,
        };
        Some(Self { about, age: Duration::from_millis(age.max(0).unsigned_abs()), outcome })
    }
}

pub(super) fn garbled() -> Error {
    Error::new(ErrorKind::Unexpected, "the row of the key was not written by this library")
}
