//! Triggers that refuse late writers, whoever they are.

use super::dialect::meaning::REFUSED;
use super::dialect::syntax::GuardTrigger;
use super::dialect::{Dialect, compound};
use crate::error::Result;

/// What a guard lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The column holds fences: it never goes back. A writer that leaves it alone
    /// cannot be told from the holder that wrote last, and is let in.
    Fence,
    /// The column counts versions: every update raises it by one. A writer that
    /// leaves it alone is refused.
    Version,
}

/// The text of a trigger on `table` that refuses late writers, also those that
/// do not use this library: someone at a prompt, an old release, a script.
///
/// Updates are checked; deletes bring no number that could be. A number that is
/// missing (`NULL`) is refused. The error is `Lost` for [`error`](super::error).
///
/// ```
/// use leasehold::sql::{self, Dialect, Rule};
///
/// let trigger = sql::guard(Dialect::Sqlite, "goods", "version", Rule::Version)?;
/// assert!(trigger.starts_with("CREATE TRIGGER \"leasehold_guard_goods_version\""));
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Errors
///
/// `Invalid` for a name that is none.
pub fn guard(dialect: Dialect, table: &str, column: &str, rule: Rule) -> Result<String> {
    let bare = table.rsplit('.').next().unwrap_or(table);
    let trigger = compound("leasehold_guard_", bare, column);
    let (at, number) = (dialect.table(table)?, dialect.column(column)?);
    let in_schema = table.split_once('.').map_or(String::new(), |(schema, _)| format!("{schema}."));
    let quoted = dialect.table(&format!("{in_schema}{trigger}"))?;
    let late = dialect.syntax().not(&match rule {
        Rule::Fence => format!("NEW.{number} >= OLD.{number}"),
        Rule::Version => format!("NEW.{number} = OLD.{number} + 1"),
    });
    let why = match rule {
        Rule::Fence => format!("{REFUSED} a fence in {column} that is older than the last one"),
        Rule::Version => format!("{REFUSED} a version in {column} that is not the next one"),
    };
    Ok(dialect.syntax().trigger(&GuardTrigger {
        name: &quoted,
        name_alone: &dialect.column(&trigger)?,
        table: &at,
        table_alone: &dialect.column(bare)?,
        late: &late,
        why: &why,
    }))
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    fn table(rule: Rule) -> rusqlite::Connection {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (id INTEGER, n INTEGER); INSERT INTO t VALUES (1, 5);")
            .unwrap();
        db.execute_batch(&guard(Dialect::Sqlite, "t", "n", rule).unwrap()).unwrap();
        db
    }

    fn write(db: &rusqlite::Connection, number: &str) -> bool {
        let done = db.execute(&format!("UPDATE t SET n = {number}"), []);
        if let Err(rusqlite::Error::SqliteFailure(code, said)) = &done {
            let code = code.extended_code.to_string();
            let error = crate::sql::error(Dialect::Sqlite, &code, said.as_deref().unwrap_or(""));
            assert!(error.is_lost(), "{error}");
        }
        done.is_ok()
    }

    #[test]
    fn fences_never_go_back() {
        let db = table(Rule::Fence);
        assert!(!write(&db, "4") && !write(&db, "NULL"));
        assert!(write(&db, "5") && write(&db, "9") && !write(&db, "8"));
    }

    #[test]
    fn versions_are_counted_one_by_one() {
        let db = table(Rule::Version);
        assert!(!write(&db, "4") && !write(&db, "5") && !write(&db, "7") && !write(&db, "NULL"));
        assert!(write(&db, "n + 1"));
    }
}
