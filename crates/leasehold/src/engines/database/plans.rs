//! How the server finds the rows of tables that are not ours to make.

use crate::engine::Finding;
use crate::engines::database::drivers::{SqlStep, Value};
use crate::engines::database::pool::Pool;
use crate::error::Result;
use crate::sql::LOCK_IN;
use crate::sql::plan::{finding, question, scans};

/// What is to be said of a column by which one row is looked for.
pub(super) async fn examine(pool: &Pool, table: &str, column: &str) -> Result<Option<Finding>> {
    let dialect = pool.family().dialect();
    let step = |sql: &str, values| SqlStep { sql: sql.into(), values, must_change: false };
    let mut steps = vec![step(&question(dialect, table, column)?, vec![Value::from("x")])];
    if let Some(seek) = dialect.syntax().seek() {
        steps.insert(0, step(seek.set, Vec::new()));
    }
    let replies = pool.transact(steps).await?.unwrap_or_default();
    let rows = replies.last().map_or(&[][..], |reply| &reply.rows);
    let plan: Vec<_> = rows.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
    Ok(scans(dialect, &plan.join(" ")).then(|| finding(dialect, table, column)))
}

/// The same for the table of `lock_in`, if there is one.
pub(super) async fn examine_names(pool: &Pool) -> Result<Option<Finding>> {
    let there = pool.family().finds_table();
    let found = pool.run(&there.into(), vec![Value::from(LOCK_IN)]).await?;
    if found.rows.is_empty() {
        return Ok(None);
    }
    examine(pool, LOCK_IN, "name").await
}
