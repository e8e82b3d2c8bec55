//! Keys that are used once: a row each, written in the transaction whose work
//! they stand for.

use std::borrow::Cow;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::dialect::syntax::OnceSyntax;
use super::dialect::{Dialect, check_table, short};
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
        check_table(&table)?;
        Ok(Self(table.into()))
    }

    /// The statements that create it, if it is not there. Empty for SQLite.
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> String {
        let text = |it: &dyn OnceSyntax| it.schema(&self.quoted(dialect), &self.index(dialect));
        dialect.syntax().once().map_or_else(String::new, text)
    }

    /// The statement that deletes at most a thousand keys whose time is up: for
    /// a job that runs now and then. Claims do not need it.
    #[must_use]
    pub fn sweep(&self, dialect: Dialect) -> String {
        let text = |it: &dyn OnceSyntax| it.sweep(&self.quoted(dialect));
        dialect.syntax().once().map_or_else(String::new, text)
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
        let (table, syntax) = (self.quoted(tx.dialect()), syntax(tx.dialect())?);
        let made = tx.run(&syntax.insert(&table), &values[..syntax.insert_values()]).await?;
        if syntax.tells_insert() && made.rows > 0 {
            return Ok(Claimed::Ours(run));
        }
        let found = tx.run(&syntax.select(&table), &[name]).await?.first;
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
        let (table, syntax) = (self.quoted(tx.dialect()), syntax(tx.dialect())?);
        let outcome = hex::encode(outcome);
        let values = syntax.fill_values(name, run, &outcome);
        match tx.run(&syntax.fill(&table), &values).await?.rows {
            0 => Err(Error::new(ErrorKind::NotHeld, "the row of the key is not ours any more")),
            _ => Ok(()),
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

fn syntax(dialect: Dialect) -> Result<&'static dyn OnceSyntax> {
    dialect.syntax().once().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "keys in your own transaction are for PostgreSQL, MySQL and MariaDB",
        )
    })
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
