//! Cleaning up, a little at a time and by one client at a time, so that
//! nothing remains. What lives is never touched.

use std::collections::HashMap;
use std::time::Duration;

use super::client::TableClient;
use super::columns::span;
use super::text::SqlText;
use super::wait::is_about_one_name;
use crate::engines::database::drivers::{ReplyRow, Value};
use crate::error::Result;

/// How long it rests between two sweeps of all clients together.
const REST: Duration = Duration::from_secs(10);
/// How many rows are taken at a time, and how often in one sweep: enough to
/// keep up with thousands of names a second that are used once.
pub(super) const BROOM: usize = 512;
const STROKES: usize = 100;
/// How long changes are kept for watchers that are slow.
const KEEP: Duration = Duration::from_secs(60);
/// How long a loss is kept for a holder that never asks; and one whose holder
/// knows of it by its own clock, if all is well. That has a fence for a reason,
/// which is shorter than any other.
const LOSSES: Duration = Duration::from_secs(24 * 60 * 60);
const OVER: Duration = Duration::from_secs(60);

impl TableClient {
    /// Sweeps, if nobody else has just done so.
    pub(super) async fn sweep(&self) -> Result<()> {
        let turn = self.run(&self.sweeping.turn, vec![span(REST).into()]).await?;
        if turn.affected == 0 {
            return Ok(());
        }
        self.run(&self.sweeping.watchers, vec![span(KEEP).into()]).await?;
        let ages = vec![span(LOSSES).into(), span(OVER).into()];
        self.run(&self.sweeping.losses, ages).await?;
        for _ in 0..STROKES {
            let swept = [
                self.end_leases().await?,
                self.end_seats().await?,
                self.end_records().await?,
                self.end_changes().await?,
                self.forget_names().await?,
                self.retire_sessions().await?,
            ];
            if swept.into_iter().all(|count| count < BROOM) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Names with nothing left to remember. Before rows go, the largest fence is
    /// kept as the floor of the namespace; no row goes that has a larger one.
    async fn forget_names(&self) -> Result<usize> {
        let rows = self.some(&self.sweeping.idle).await?;
        for (space, fence) in largest(&rows, 1)? {
            let values = || vec![space.as_str().into(), fence.into()];
            self.run(&self.sweeping.floor, values()).await?;
            self.run(&self.sweeping.forget, values()).await?;
        }
        Ok(rows.len())
    }

    /// Leases that nobody asked for since their session ended.
    async fn end_leases(&self) -> Result<usize> {
        let rows = self.some(&self.sweeping.dead).await?;
        for row in &rows {
            self.pass(row).await?;
        }
        Ok(rows.len())
    }

    /// Lets time pass for the name of a row; one that cannot be read does not keep
    /// the others waiting.
    async fn pass(&self, row: &ReplyRow) -> Result<()> {
        let Ok(name) = self.full_name(row, 0) else { return Ok(()) };
        match self.let_time_pass(&name).await {
            Err(error) if !is_about_one_name(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Places whose sessions have ended, many at once. Nobody gets his turn by one
    /// of them any more, so no swap has to hear of it: who has read it lets it go.
    /// But whoever comes after it may fit where it did not, so that is seen to
    /// first: once the row is gone, nothing says that there was something to do.
    async fn end_seats(&self) -> Result<usize> {
        let rows = self.some(&self.sweeping.dead_seats).await?;
        for row in &rows {
            let Ok(name) = self.full_name(row, 0) else { continue };
            let [space, text] = self.key(&name);
            let session = row.int(2)?;
            let values = || vec![space.clone(), text.clone(), session.into(), count(BROOM)];
            self.pass(row).await?;
            while self.run(&self.sweeping.end_seats, values()).await?.affected >= BROOM as u64 {}
        }
        Ok(rows.len())
    }

    /// Sessions that have ended, are waited out and keep nothing.
    async fn retire_sessions(&self) -> Result<usize> {
        let rows = self.some(&self.sweeping.retired).await?;
        for row in &rows {
            self.run(&self.sweeping.retire, vec![row.int(0)?.into()]).await?;
        }
        Ok(rows.len())
    }

    /// Changes that even slow watchers have read.
    async fn end_changes(&self) -> Result<usize> {
        let values = vec![span(KEEP).into(), count(BROOM)];
        let rows = self.run(&self.sweeping.changes, values).await?.rows;
        for (space, version) in largest(&rows, 1)? {
            let values = || vec![space.as_str().into(), version.into()];
            self.run(&self.sweeping.cut, values()).await?;
            self.run(&self.sweeping.drop_changes, values()).await?;
        }
        Ok(rows.len())
    }

    async fn some(&self, find: &SqlText) -> Result<Vec<ReplyRow>> {
        Ok(self.run(find, vec![count(BROOM)]).await?.rows)
    }
}

pub(super) fn count(many: usize) -> Value {
    i64::try_from(many).unwrap_or(i64::MAX).into()
}

/// The largest number in a column, for each namespace in the first.
fn largest(rows: &[ReplyRow], at: usize) -> Result<HashMap<String, i64>> {
    let mut found: HashMap<String, i64> = HashMap::new();
    for row in rows {
        let most = found.entry(row.text(0)?.to_owned()).or_default();
        *most = row.int(at)?.max(*most);
    }
    Ok(found)
}
