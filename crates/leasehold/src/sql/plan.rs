//! Whether a server finds a row by its key, or reads all rows for it.

use super::dialect::Dialect;
use super::transaction::Transaction;
use crate::engine::{Finding, Severity};
use crate::error::Result;

/// Looks how your server finds the rows that [`lock_row`](super::lock_row) or
/// [`NameTable`](super::NameTable) lock: says so if it would read the whole table
/// for one of them. MySQL and MariaDB lock every row that they read on the way.
///
/// Changes nothing; the transaction goes on as it was.
///
/// # Errors
///
/// `Invalid` for a name that is none, or if there is no such table.
///
/// # Cancel safety
///
/// Roll the transaction back if the future is dropped: on PostgreSQL a setting of the
/// planner may be left changed until its end.
pub async fn examine(
    transaction: &mut impl Transaction,
    table: &str,
    column: &str,
) -> Result<Option<Finding>> {
    let dialect = transaction.dialect();
    let question = question(dialect, table, column)?;
    let seek = dialect.syntax().seek();
    let mut before = None;
    if let Some(seek) = seek {
        before = transaction.run(seek.before, &[]).await?.first;
        transaction.run(seek.set, &[]).await?;
    }
    let told = transaction.run(&question, &["x"]).await;
    if let (Some(seek), Some(before), true) = (seek, before, told.is_ok()) {
        transaction.run(seek.back, &[&before]).await?;
    }
    let plan = told?.first.unwrap_or_default();
    Ok(scans(dialect, &plan).then(|| finding(dialect, table, column)))
}

/// Asks how one row is found; takes the value.
pub(crate) fn question(dialect: Dialect, table: &str, column: &str) -> Result<String> {
    let (table, column, place) = (dialect.table(table)?, dialect.column(column)?, dialect.place(1));
    let explain = dialect.syntax().explain();
    Ok(format!("{explain} SELECT {column} FROM {table} WHERE {column} = {place}"))
}

/// Whether a plan reads all rows.
pub(crate) fn scans(dialect: Dialect, plan: &str) -> bool {
    dialect.syntax().scans(plan)
}

/// What an operator is told of it.
pub(crate) fn finding(dialect: Dialect, table: &str, column: &str) -> Finding {
    let locks = dialect.syntax().scan_cost();
    Finding::new(
        Severity::Danger,
        format!(
            "{table}.{column} has no index that the server can use: it reads all of {table} for \
             one name{locks}, and nothing keeps a name from being there twice"
        ),
        format!("make {column} the primary key of {table}, or give it a unique index"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_tells_a_scan_from_a_look() {
        let pg = |plan| scans(Dialect::Postgres, plan);
        assert!(pg("Seq Scan on t  (cost=10000000000.00..10000000041.88 rows=13 width=32)"));
        assert!(!pg("Index Only Scan using t_pkey on t  (cost=0.15..8.17 rows=1 width=32)"));
        let my = |plan| scans(Dialect::Mysql, plan);
        assert!(my(r#"{"query_block": {"table": {"access_type": "ALL", "rows": 9}}}"#));
        assert!(!my(r#"{"table": {"access_type": "const", "possible_keys": ["PRIMARY"]}}"#));
        assert!(!my(r#"{"table": {"access_type": "index", "possible_keys": ["PRIMARY"]}}"#));
    }
}
