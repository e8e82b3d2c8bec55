//! Updates that refuse whoever comes late.

use super::dialect::Dialect;
use super::statement::{Draft, Statement};
use crate::error::{Error, Result};

/// Refuses a holder whose lease is over, and remembers one whose lease is not:
/// in one statement, so that nothing can happen in between.
///
/// `table` has one row per resource, found by the unique column `key`; `fence`
/// is a `BIGINT NOT NULL DEFAULT 0`. Run it first in the transaction that
/// writes, with the fence of your guard. The row then stays locked until the
/// end of the transaction, and:
///
/// - one row changed: go on;
/// - no row changed: a later holder was here (or there is no such row). Roll back.
///
/// An equal fence is let in again. MySQL calls a row that has its value already
/// *not* changed, unless the connection has the flag `CLIENT_FOUND_ROWS` (sqlx
/// sets it; mysql_async has `client_found_rows`). Without the flag look at the
/// last insert id of the answer: it is the fence if it was let in, 0 if not.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "sqlite")] {
/// use leasehold::sql::{self, Dialect};
///
/// let db = rusqlite::Connection::open_in_memory()?;
/// db.execute_batch(
///     "CREATE TABLE goods (id INTEGER PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0);
///      INSERT INTO goods (id) VALUES (7);",
/// )?;
/// let check = sql::fence_check(Dialect::Sqlite, "goods", "id", "fence")?;
/// let mut let_in = |fence| db.execute(check.text(), [fence, 7]);
/// assert_eq!(let_in(17)?, 1);
/// assert_eq!(let_in(17)?, 1, "the same holder again");
/// assert_eq!(let_in(16)?, 0, "its predecessor, late");
/// assert_eq!(let_in(18)?, 1);
/// # } Ok(()) }
/// ```
///
/// # Errors
///
/// `Invalid` for a name that is none.
pub fn fence_check(dialect: Dialect, table: &str, key: &str, fence: &str) -> Result<Statement> {
    fenced_update(dialect, table, key, fence, &[])
}

/// [`fence_check`] and the write itself in one statement: sets `columns`, unless
/// a later holder was here.
///
/// ```
/// use leasehold::sql::{self, Dialect};
///
/// let write = sql::fenced_update(Dialect::Mysql, "goods", "id", "fence", &["stock"])?;
/// assert_eq!(
///     write.text(),
///     "UPDATE `goods` SET `stock` = ?, `fence` = LAST_INSERT_ID(?) \
///      WHERE `id` = ? AND `fence` <= ?"
/// );
/// assert_eq!(write.values(), ["stock", "fence", "id", "fence"]);
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Errors
///
/// `Invalid` for a name that is none, or for a column that is given twice.
pub fn fenced_update(
    dialect: Dialect,
    table: &str,
    key: &str,
    fence: &str,
    columns: &[&str],
) -> Result<Statement> {
    let draft = set(dialect, table, columns, &[key, fence])?.column(fence)?;
    // The server tells this number even of a row that has it already.
    let (before, after) = dialect.syntax().told();
    let draft = draft.words(" = ").words(before).value(fence).words(after);
    let draft = draft.words(" WHERE ").column(key)?.words(" = ").value(key);
    Ok(draft.words(" AND ").column(fence)?.words(" <= ").value(fence).done())
}

/// Sets `columns` and counts `version` up, unless someone else has written since
/// you read it: optimistic locking.
///
/// Read the row with its version, without any lock; write with that version. One
/// row changed: it is written. None: read again and decide anew.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "sqlite")] {
/// use leasehold::sql::{self, Dialect};
///
/// let db = rusqlite::Connection::open_in_memory()?;
/// db.execute_batch(
///     "CREATE TABLE goods (id INTEGER PRIMARY KEY, stock INTEGER, version INTEGER);
///      INSERT INTO goods VALUES (7, 10, 1);",
/// )?;
/// let write = sql::versioned_update(Dialect::Sqlite, "goods", "id", "version", &["stock"])?;
/// assert_eq!(write.values(), ["stock", "id", "version"]);
/// assert_eq!(db.execute(write.text(), [9, 7, 1])?, 1);
/// assert_eq!(db.execute(write.text(), [9, 7, 1])?, 0, "another who has read 10");
/// # } Ok(()) }
/// ```
///
/// # Errors
///
/// `Invalid` for a name that is none, for a column that is given twice, or for
/// no columns.
pub fn versioned_update(
    dialect: Dialect,
    table: &str,
    key: &str,
    version: &str,
    columns: &[&str],
) -> Result<Statement> {
    if columns.is_empty() {
        return Err(Error::invalid("a versioned update sets at least one column"));
    }
    let draft = set(dialect, table, columns, &[key, version])?.column(version)?;
    let draft = draft.words(" = ").column(version)?.words(" + 1 WHERE ");
    let draft = draft.column(key)?.words(" = ").value(key);
    Ok(draft.words(" AND ").column(version)?.words(" = ").value(version).done())
}

/// `UPDATE table SET a = .., b = ..,` and a blank.
fn set(dialect: Dialect, table: &str, columns: &[&str], others: &[&str]) -> Result<Draft> {
    let all: Vec<_> = others.iter().chain(columns).collect();
    if let Some((at, twice)) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
        debug_assert!(at > 0, "the first cannot be there twice");
        return Err(Error::invalid(format!("the column {twice:?} is given twice")));
    }
    let mut draft = Draft::new(dialect).words("UPDATE ").table(table)?.words(" SET ");
    for column in columns {
        draft = draft.column(column)?.words(" = ").value(column).words(", ");
    }
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_cannot_be_the_key_or_the_version_as_well() {
        for columns in [&["id"][..], &["version"], &["a", "a"], &[]] {
            assert!(versioned_update(Dialect::Mysql, "t", "id", "version", columns).is_err());
        }
    }

    #[test]
    fn numbered_places_are_given_once() {
        let text = |dialect| versioned_update(dialect, "s.t", "id", "v", &["a", "b"]).unwrap();
        assert_eq!(
            text(Dialect::Postgres).text(),
            r#"UPDATE "s"."t" SET "a" = $1, "b" = $2, "v" = "v" + 1 WHERE "id" = $3 AND "v" = $4"#
        );
        assert_eq!(text(Dialect::Mysql).values(), ["a", "b", "id", "v"]);
    }
}
