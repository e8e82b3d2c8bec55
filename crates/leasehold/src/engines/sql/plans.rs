//! How the server finds the rows of tables that are not ours to make.

use super::link::{Dialect, Link, Step, Value};
use crate::engine::Finding;
use crate::error::Result;
use crate::sql::plan::{SEEK, finding, question, scans};
use crate::sql::{self, LOCK_IN};

/// What is to be said of a column by which one row is looked for.
pub(super) async fn examine(link: &Link, table: &str, column: &str) -> Result<Option<Finding>> {
    let dialect = match link.dialect() {
        Dialect::Postgres => sql::Dialect::Postgres,
        Dialect::Mysql => sql::Dialect::Mysql,
    };
    let step = |sql: &str, values| Step { sql: sql.into(), values, must_change: false };
    let mut steps = vec![step(&question(dialect, table, column)?, vec![Value::from("x")])];
    if link.dialect() == Dialect::Postgres {
        steps.insert(0, step(SEEK, Vec::new()));
    }
    let replies = link.transact(steps).await?.unwrap_or_default();
    let rows = replies.last().map_or(&[][..], |reply| &reply.rows);
    let plan: Vec<_> = rows.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
    Ok(scans(dialect, &plan.join(" ")).then(|| finding(dialect, table, column)))
}

/// The same for the table of `lock_in`, if there is one.
pub(super) async fn examine_names(link: &Link) -> Result<Option<Finding>> {
    let there = match link.dialect() {
        Dialect::Postgres => "SELECT 1 WHERE to_regclass($1) IS NOT NULL",
        Dialect::Mysql => {
            "SELECT 1 FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
        }
    };
    let found = link.run(&there.into(), vec![Value::from(LOCK_IN)]).await?;
    if found.rows.is_empty() {
        return Ok(None);
    }
    examine(link, LOCK_IN, "name").await
}
