//! Rows that stay locked until the transaction ends.

use std::time::Duration;

use super::dialect::Dialect;
use super::statement::{Draft, Statement};
use crate::error::{Error, ErrorKind, Result};

/// What to do about a row that someone else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Wait as long as the server lets you.
    Always,
    /// Fail at once: [`error`](super::error) makes it `TimedOut`.
    No,
    /// Pass over it, as if it were not there: for jobs taken from a table.
    Skip,
    /// Wait this long, then fail as `No` does. See [`wait_limit`].
    AtMost(Duration),
}

/// Locks the row whose unique column `key` has the given value, until the
/// transaction ends: `SELECT .. FOR UPDATE`.
///
/// Without an index on `key` the server locks rows that it merely looks at, on
/// MySQL the whole table: `key` must be the primary key or unique. Without a
/// transaction around it, it locks nothing.
///
/// ```
/// use leasehold::sql::{self, Dialect, Wait};
///
/// let lock = sql::lock_row(Dialect::Postgres, "goods", "id", Wait::Skip)?;
/// assert_eq!(lock.text(), r#"SELECT * FROM "goods" WHERE "id" = $1 FOR UPDATE SKIP LOCKED"#);
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Errors
///
/// `Invalid` for a name that is none. `Unsupported` on SQLite, which locks whole
/// files: begin the transaction with `BEGIN IMMEDIATE`.
pub fn lock_row(dialect: Dialect, table: &str, key: &str, wait: Wait) -> Result<Statement> {
    if !dialect.syntax().locks_rows() {
        let text = "SQLite has no row locks; begin the transaction with BEGIN IMMEDIATE";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let draft = Draft::new(dialect).words("SELECT * FROM ").table(table)?.words(" WHERE ");
    let draft = draft.column(key)?.words(" = ").value(key).words(" FOR UPDATE");
    Ok(match wait {
        Wait::Always | Wait::AtMost(_) => draft,
        Wait::No => draft.words(" NOWAIT"),
        Wait::Skip => draft.words(" SKIP LOCKED"),
    }
    .done())
}

/// Bounds every wait for a lock that follows: run it before [`lock_row`] with
/// [`Wait::AtMost`].
///
/// On PostgreSQL it holds until the transaction ends. On MySQL it holds for the
/// session and counts whole seconds, rounded up: set it back if the connection
/// goes to a pool. On SQLite it is the busy time-out of the connection.
///
/// ```
/// use std::time::Duration;
/// use leasehold::sql::{self, Dialect};
///
/// let limit = |dialect| sql::wait_limit(dialect, Duration::from_millis(1500)).to_string();
/// assert_eq!(limit(Dialect::Postgres), "SET LOCAL lock_timeout = 1500");
/// assert_eq!(limit(Dialect::Mysql), "SET SESSION innodb_lock_wait_timeout = 2");
/// assert_eq!(limit(Dialect::Sqlite), "PRAGMA busy_timeout = 1500");
/// ```
#[must_use]
pub fn wait_limit(dialect: Dialect, limit: Duration) -> Statement {
    // For PostgreSQL 0 means no limit at all.
    let millis = limit.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let text = dialect.syntax().wait_limit(millis, seconds(limit));
    Draft::new(dialect).words(&text).done()
}

/// Whole seconds, at least one, rounded up.
fn seconds(limit: Duration) -> u64 {
    let more = u64::from(limit.subsec_nanos() > 0);
    limit.as_secs().saturating_add(more).clamp(1, 1 << 30)
}
