//! To lead again and again.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Election;
use super::reign::Reign;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};

/// The first pause after an engine was away, doubled each time, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Leads again after each reign, however that ended; see [`Election::requeue`].
#[derive(Clone, Debug)]
pub struct Requeue {
    election: Election,
}

impl Requeue {
    pub(super) const fn new(election: Election) -> Self {
        Self { election }
    }

    /// Campaigns, runs `work` while we lead, and campaigns again: after the work
    /// was done, after the lead was lost, and after the engine was away. It ends
    /// when the work breaks, and in no other way but with an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// use std::ops::ControlFlow;
    ///
    /// let mut terms = 0;
    /// let election = locks.election("scheduler").requeue();
    /// let done = election.lead("node-1", async |_reign| {
    ///     terms += 1;
    ///     if terms < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break("done") }
    /// });
    /// assert_eq!(done.await?, "done");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// What no other try could mend: `Invalid`, `Unsupported`, `Denied`,
    /// `Unexpected`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lead back.
    pub async fn lead<T>(
        self,
        value: impl Into<String>,
        mut work: impl AsyncFnMut(&mut Reign) -> ControlFlow<T>,
    ) -> Result<T> {
        let (value, mut away) = (value.into(), Backoff::default());
        loop {
            let mut reign = match self.election.campaign(&*value).await {
                Ok(reign) => reign,
                Err(error) => {
                    away.after(&self.election, error)?.await?;
                    continue;
                }
            };
            away = Backoff::default();
            let lost = reign.lost();
            let done = tokio::select! {
                biased;
                _ = lost => None,
                done = work(&mut reign) => Some(done),
            };
            match reign.conclude(done).await {
                Ok(ControlFlow::Break(done)) => return Ok(done),
                Ok(ControlFlow::Continue(())) => {}
                Err(error) => away.after(&self.election, error)?.await?,
            }
        }
    }
}

/// How long to wait before the next campaign.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A pause after an error that another campaign may not meet; any other error
    /// is returned.
    pub(super) fn after(
        &mut self,
        election: &Election,
        error: Error,
    ) -> Result<BoxFuture<Result<()>>> {
        if !(error.is_retryable() || error.is_lost()) {
            return Err(error);
        }
        let most = PAUSE.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
        self.failures += u32::from(!error.is_timed_out());
        let span = most.mul_f64(0.5 + 0.5 * fastrand::f64());
        let locks = election.builder.locks.clone();
        Ok(Box::pin(async move { locks.rest(span).await }))
    }
}
