//! A campaign: the wait for the lead.

use std::time::Duration;

use super::publication::Publication;
use super::reign::Reign;
use crate::engine::BoxFuture;
use crate::error::Result;
use crate::recipes::request_builder::{Lock, RequestBuilder};

/// A lead to be awaited.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use std::time::Duration;
///
/// let election = locks.election("scheduler");
/// let reign = election.campaign("node-1").await?;
///
/// let hasty = election.campaign("node-2").within(Duration::from_millis(10));
/// assert!(hasty.await.unwrap_err().is_timed_out());
/// # drop(reign);
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// A dropped future leaves nothing behind. Its place in the line is lost.
#[must_use = "does nothing unless awaited"]
#[derive(Debug)]
pub struct Campaign {
    builder: RequestBuilder,
    lock: Lock,
    value: String,
}

impl Campaign {
    pub(super) const fn new(builder: RequestBuilder, lock: Lock, value: String) -> Self {
        Self { builder, lock, value }
    }

    /// Waits at most this long for the lead; then the error `TimedOut` says who
    /// has it.
    pub fn within(mut self, limit: Duration) -> Self {
        self.lock = self.lock.within(limit);
        self
    }

    async fn win(self) -> Result<Reign> {
        let Self { builder, lock, value } = self;
        super::Election { builder: builder.clone() }.check(&value)?;
        let guard = lock.await?;
        let publication = Publication::of(&builder);
        let mut reign = Reign::new(guard, publication);
        if reign.can_speak() {
            reign.proclaim(value).await?;
        }
        Ok(reign)
    }
}

impl IntoFuture for Campaign {
    type Output = Result<Reign>;
    type IntoFuture = BoxFuture<Result<Reign>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.win())
    }
}
