//! A reign: the lead, while it is ours.

use super::publication::Publication;
use crate::claim::Released;
use crate::error::Result;
use crate::guard::Guard;
use crate::hold::Standing;

/// We lead, until this is given up, dropped or lost.
///
/// It is as good as the [`Guard`] in it, and no better: a machine may be suspended
/// or cut off at any moment. Work that two may not do at once checks
/// [`Reign::check`] before each step, or hands [`Reign::fence`] to the resource.
#[must_use = "the lead is given back when the reign is dropped"]
#[derive(Debug)]
pub struct Reign {
    guard: Guard,
    publication: Publication,
}

impl Reign {
    pub(super) const fn new(guard: Guard, publication: Publication) -> Self {
        Self { guard, publication }
    }

    pub(super) fn can_speak(&self) -> bool {
        self.publication.has_record()
    }

    /// The fencing token: larger than that of every reign before.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.guard.fence()
    }

    /// The lease of this reign: its deadline, its predecessor, its sequencer.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Do we still lead? Costs no request: it looks at the clock.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// Resolves when we do not lead any more; tells why. The future owns what it
    /// needs and can outlive the reign.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and asked for again.
    pub fn lost(&self) -> impl Future<Output = Standing> + Send + 'static {
        self.guard.lost()
    }

    /// Says something else about ourselves, from now on: observers see it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// let mut reign = locks.election("scheduler").campaign("starting").await?;
    /// reign.proclaim("10.0.0.7:8080").await?;
    /// # reign.resign().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `Lost` if we do not lead any more; `Invalid` if the value is too large;
    /// `Unsupported` if the engine keeps no records, or with `names=raw`. An engine that is away is
    /// asked again for as long as we lead.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may or may not have said it.
    pub async fn proclaim(&mut self, value: impl Into<String>) -> Result<()> {
        let value = value.into();
        self.publication.publish(&self.guard, &value).await
    }

    /// Gives the lead up, so that the next in line leads at once.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached; it is then tried again in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// The lead is given up even if the future is dropped.
    pub async fn resign(self) -> Result<Released> {
        self.guard.release().await
    }

    /// Runs `work` while we lead, then resigns. If the lead is lost meanwhile, the
    /// work is dropped at its next await point.
    ///
    /// # Errors
    ///
    /// `Lost` if the lead ended before the work.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lead back.
    pub async fn run<T>(mut self, work: impl AsyncFnOnce(&mut Self) -> T) -> Result<T> {
        let lost = self.lost();
        let done = tokio::select! {
            biased;
            _ = lost => None,
            done = work(&mut self) => Some(done),
        };
        self.conclude(done).await
    }

    /// Resigns after work that was done; after work that was dropped, says why.
    pub(super) async fn conclude<T>(self, done: Option<T>) -> Result<T> {
        match done {
            Some(done) => self.guard.release_as_held().await.map(|()| done),
            None => Err(self.guard.why_lost()),
        }
    }
}
