//! Several statements that happen or do not.

use std::sync::Arc;

use super::fault::SqlFault;
use super::value::{Reply, SqlStep, Value};
use crate::clock::Clock;
use crate::error::Result;

/// A connection that nobody else uses meanwhile.
pub(crate) trait TransactionSession: Send {
    /// One statement with values.
    fn say(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> impl Future<Output = Result<Reply, SqlFault>> + Send;

    /// One without values and without an answer.
    fn tell(&mut self, sql: &str) -> impl Future<Output = Result<(), SqlFault>> + Send;
}

/// All steps or none; `None` if one that had to meet a row did not.
///
/// Until the commit is sent nothing has an effect, whatever answers are lost.
pub(crate) async fn run(
    session: &mut impl TransactionSession,
    begin: &str,
    steps: &[SqlStep],
    clock: &Clock,
) -> Result<Option<Vec<Reply>>, SqlFault> {
    session.tell(begin).await.map_err(SqlFault::undone)?;
    match take(session, steps, clock).await {
        Ok(Some(replies)) => session.tell("COMMIT").await.map(|()| Some(replies)),
        Ok(None) => session.tell("ROLLBACK").await.map(|()| None).map_err(SqlFault::undone),
        Err(fault) => {
            let kept = !fault.broken && session.tell("ROLLBACK").await.is_ok();
            Err(SqlFault { broken: !kept, ..fault.undone() })
        }
    }
}

async fn take(
    session: &mut impl TransactionSession,
    steps: &[SqlStep],
    clock: &Clock,
) -> Result<Option<Vec<Reply>>, SqlFault> {
    let mut replies = Vec::with_capacity(steps.len());
    for step in steps {
        let reply = session.say(&step.sql, &step.values, clock).await?;
        if step.must_change && reply.affected == 0 && reply.rows.is_empty() {
            return Ok(None);
        }
        replies.push(reply);
    }
    Ok(Some(replies))
}
