//! The verbs of an engine, without the library above them.

use std::sync::Arc;
use std::time::Duration;

use leasehold::claim::{
    Busy, Claim, Ending, Grant, Owner, Refresh, Renewal, Stance, Ticket, Verdict,
};
use leasehold::{Engine, Locks, Mode, Moment, Released};

use super::check::{Outcome, ensure};
use super::patience::{self, HOUR};
use super::store::Store;

/// An engine, and the client that keeps it open.
pub(super) struct Direct {
    pub(super) locks: Locks,
    pub(super) engine: Arc<dyn Engine>,
}

impl Direct {
    pub(super) async fn new(store: &Store) -> Outcome<Self> {
        let locks = store.open().await?.into_locks();
        Ok(Self { engine: locks.engine(), locks })
    }

    /// A claim on the name `n` that tries, for an hour.
    pub(super) fn claim(&self, mode: Mode) -> Claim {
        let name = self.locks.name("n").expect("a good name");
        Claim::new(Ticket::new(name, mode), Owner::new("direct"), HOUR)
    }

    /// A claim that waits without end.
    pub(super) fn waiting(&self, mode: Mode) -> Claim {
        let mut claim = self.claim(mode);
        claim.stance = Stance::Wait { until: Moment::NEVER };
        claim
    }

    /// A ttl that is meant to run out.
    pub(super) fn short(&self) -> Duration {
        patience::short(self.engine.profile())
    }

    /// A claim that ends after `ttl` whatever else is kept alive.
    pub(super) fn fixed(&self, ttl: Duration) -> Claim {
        let mut claim = self.claim(Mode::Exclusive);
        (claim.ttl, claim.renewed) = (ttl, false);
        claim
    }

    pub(super) async fn granted(&self, claim: Claim) -> Outcome<Grant> {
        match self.engine.acquire(claim).await? {
            Verdict::Granted(grant) => Ok(grant),
            Verdict::Busy(busy) => Err(format!("not granted: {busy:?}").into()),
        }
    }

    pub(super) async fn busy(&self, claim: Claim) -> Outcome<Busy> {
        match self.engine.acquire(claim).await? {
            Verdict::Busy(busy) => Ok(busy),
            Verdict::Granted(grant) => Err(format!("granted: {grant:?}").into()),
        }
    }

    pub(super) async fn invalid(&self, claim: Claim) -> Outcome {
        let error = self.engine.acquire(claim).await.err().ok_or("kinds were mixed")?;
        ensure!(error.kind() == leasehold::ErrorKind::Invalid, "{error:?}");
        Ok(())
    }

    pub(super) async fn renew(&self, ticket: &Ticket) -> Outcome<Renewal> {
        let mut answers = self.engine.renew(vec![Refresh::new(ticket.clone(), HOUR)]).await;
        ensure!(answers.len() == 1, "{} answers for one ticket", answers.len());
        Ok(answers.remove(0))
    }

    pub(super) async fn release(&self, ticket: &Ticket) -> Outcome<Released> {
        Ok(self.engine.release(ticket.clone(), Ending::new()).await?)
    }

    /// How many hold the name and how many wait for it.
    pub(super) async fn census(&self) -> Outcome<(usize, usize)> {
        let status = self.locks.status("n").await?;
        Ok((status.holders.len(), status.waiters.len()))
    }
}
