//! How the server finds the rows of tables that are not ours to make.

use crate::engine::Finding;
use crate::engines::database::dialect::Dialect;
use crate::engines::database::drivers::{Step, Value};
use crate::engines::database::pool::Pool;
use crate::error::Result;
use crate::sql::plan::{SEEK, finding, question, scans};
use crate::sql::{self, LOCK_IN};

/// What is to be said of a column by which one row is looked for.
pub(super) async fn examine(pool: &Pool, table: &str, column: &str) -> Result<Option<Finding>> {
    let dialect = match pool.dialect() {
        Dialect::Postgres => sql::Dialect::Postgres,
        Dialect::Mysql => sql::Dialect::Mysql,
    };
    let step = |sql: &str, values| Step { sql: sql.into(), values, must_change: false };
    let mut steps = vec![step(&question(dialect, table, column)?, vec![Value::from("x")])];
    if pool.dialect() == Dialect::Postgres {
        steps.insert(0, step(SEEK, Vec::new()));
    }
    let replies = pool.transact(steps).await?.unwrap_or_default();
    let rows = replies.last().map_or(&[][..], |reply| &reply.rows);
    let plan: Vec<_> = rows.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
    Ok(scans(dialect, &plan.join(" ")).then(|| finding(dialect, table, column)))
}

/// The same for the table of `lock_in`, if there is one.
pub(super) async fn examine_names(pool: &Pool) -> Result<Option<Finding>> {
    let there = match pool.dialect() {
        Dialect::Postgres => "SELECT 1 WHERE to_regclass($1) IS NOT NULL",
        Dialect::Mysql => {
            "SELECT 1 FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
        }
    };
    let found = pool.run(&there.into(), vec![Value::from(LOCK_IN)]).await?;
    if found.rows.is_empty() {
        return Ok(None);
    }
    examine(pool, LOCK_IN, "name").await
}
