//! Inside: we have begun with the others.

use std::sync::Arc;
use std::time::Duration;

use super::DoubleBarrier;
use super::round::BarrierRound;
use crate::clock::Moment;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::recipes::cache::{Cache, KeyOnly};
use crate::recipes::present_record::PresentRecord;

/// We have begun with the others of our round.
///
/// Dropping it leaves without waiting for the others.
#[must_use = "the barrier is left when this is dropped"]
#[derive(Debug)]
pub struct Inside {
    barrier: DoubleBarrier,
    round: BarrierRound,
    /// `None` once we have left.
    record: Option<PresentRecord>,
    /// Who is here.
    here: Cache<KeyOnly>,
}

impl Inside {
    pub(super) const fn new(
        barrier: DoubleBarrier,
        round: BarrierRound,
        record: PresentRecord,
        here: Cache<KeyOnly>,
    ) -> Self {
        Self { barrier, round, record: Some(record), here }
    }

    /// The number of the round: all who began together have the same, and that of a
    /// later round is larger.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.round.number
    }

    /// Whether the others still count on us: false once our client was away for so
    /// long that they took us for dead.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.presence().check().is_ok())
    }

    /// Leaves, and waits until all others of the round have left; see [`Leave`] for
    /// limits.
    ///
    /// # Errors
    ///
    /// `TimedOut` after a wait limit, although we have left; the engine's error if it
    /// cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// We leave even if the future is dropped.
    pub fn leave(self) -> Leave {
        let limit = self.barrier.locks.own_wait_limit();
        Leave { inside: self, limit }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.leave_apart();
        }
    }
}

/// The end of a round, to be awaited.
///
/// # Cancel safety
///
/// We leave even if the future is dropped.
#[must_use = "leaves without waiting for the others unless awaited"]
#[derive(Debug)]
pub struct Leave {
    inside: Inside,
    limit: Option<Duration>,
}

impl Leave {
    /// Waits at most this long for the others; we have left in any case.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    async fn leave(mut self) -> Result<()> {
        let locks = self.inside.barrier.locks.clone();
        let now = locks.clock().now();
        let until = self.limit.map_or(Moment::NEVER, |limit| now.after(limit));
        if let Some(record) = self.inside.record.take() {
            let left = crate::detached::Detached::of(locks.home().clone(), async move {
                let left = record.leave().await;
                if left.is_err() {
                    record.leave_apart();
                }
                left
            });
            left.await?;
        }
        let path = self.inside.barrier.members_path();
        let (round, here) = (self.inside.round.clone(), self.inside.here.clone());
        let gone = locks.until(until, all_gone(path, round, here)).await;
        gone.unwrap_or_else(|| Err(not_all(&self.inside.barrier)))
    }
}

impl IntoFuture for Leave {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<Result<()>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.leave())
    }
}

/// Waits until nobody of the round is here. What is stale is not believed: who is not
/// known to be here may have come back into view.
async fn all_gone(path: String, round: BarrierRound, here: Cache<KeyOnly>) -> Result<()> {
    let mut news = here.events();
    loop {
        let known = here.freshness().is_live();
        let is_here = |mark: &Arc<str>| matches!(here.get(format!("{path}/{mark}")), Ok(Some(_)));
        if known && !round.members.iter().any(is_here) {
            return Ok(());
        }
        if news.next().await.is_none() {
            return Err(crate::core::shut_down());
        }
    }
}

fn not_all(barrier: &DoubleBarrier) -> Error {
    let text = "not all members of the round have left in time; we have";
    Error::new(ErrorKind::TimedOut, text).with("barrier", &barrier.path)
}
