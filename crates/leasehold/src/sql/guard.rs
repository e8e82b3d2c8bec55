//! Triggers that refuse late writers, whoever they are.

use super::dialect::{Dialect, compound};
use super::fault::{LATE, REFUSED};
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
    let late = late(dialect, &number, rule);
    let why = match rule {
        Rule::Fence => format!("{REFUSED} a fence in {column} that is older than the last one"),
        Rule::Version => format!("{REFUSED} a version in {column} that is not the next one"),
    };
    Ok(match dialect {
        Dialect::Postgres => {
            let plain = dialect.column(&trigger)?;
            postgres(&quoted, &plain, &at, &late, &why)
        }
        Dialect::Mysql => mysql(&quoted, &at, &late, &why),
        // SQLite looks for the table where the trigger is.
        Dialect::Sqlite => sqlite(&quoted, &dialect.column(bare)?, &late, &why),
    })
}

/// True for a writer that has to be refused, also where a number is missing.
fn late(dialect: Dialect, number: &str, rule: Rule) -> String {
    let fine = match rule {
        Rule::Fence => format!("NEW.{number} >= OLD.{number}"),
        Rule::Version => format!("NEW.{number} = OLD.{number} + 1"),
    };
    match dialect {
        Dialect::Postgres => format!("({fine}) IS NOT TRUE"),
        Dialect::Mysql | Dialect::Sqlite => format!("NOT COALESCE({fine}, 0)"),
    }
}

/// In place of one that is there, in one statement: at no moment there is none.
/// PostgreSQL has a word for that only since 14.
fn postgres(function: &str, trigger: &str, table: &str, late: &str, why: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $guard$\n\
         BEGIN\n    \
             IF {late} THEN\n        \
                 RAISE EXCEPTION '{why}' USING ERRCODE = '{LATE}';\n    \
             END IF;\n    \
             RETURN NEW;\n\
         END\n\
         $guard$;\n\
         DO $guard$\n\
         BEGIN\n    \
             DROP TRIGGER IF EXISTS {trigger} ON {table};\n    \
             CREATE TRIGGER {trigger} BEFORE UPDATE ON {table}\n        \
                 FOR EACH ROW EXECUTE FUNCTION {function}();\n\
         END\n\
         $guard$;\n"
    )
}

fn mysql(trigger: &str, table: &str, late: &str, why: &str) -> String {
    format!(
        "CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW\n\
         IF {late} THEN\n    \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{why}';\n\
         END IF"
    )
}

fn sqlite(trigger: &str, table: &str, late: &str, why: &str) -> String {
    format!(
        "CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW WHEN {late}\n\
         BEGIN\n    \
             SELECT RAISE(ABORT, '{why}');\n\
         END;\n"
    )
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
