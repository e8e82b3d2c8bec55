//! Engines that are wrong on purpose: the suite must find each of them out.
//!
//! Each wraps a good engine through the public contract and does one thing
//! that some lock library out there has really done.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::claim::{
    Claim, Ending, Grant, LeaseId, Owner, Refresh, Renewal, Stance, Ticket, Verdict, Wake,
};
use leasehold::engine::{BoxFuture, Bus, Events, Eviction, Target};
use leasehold::{Clock, Engine, Moment, Name, Predecessor, Released, Result};

use crate::twist::{Inner, Twist, Twisted};

/// A way to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// `DEL key`: releases whoever holds the name.
    ReleaseWithoutCompare,
    /// A renewal that finds nothing takes the name again.
    RenewResurrects,
    /// A renewal extends whoever holds the name, and says it is ours.
    RenewWithoutCompare,
    /// The lease is dated by the reply, not by the request.
    DeadlineFromReply,
    /// Whoever gives up waiting stays in the queue.
    CancelWithoutRelease,
    /// The fence counter starts again after an expiry.
    VolatileFence,
    /// The waiter subscribes after the push was sent, and sleeps.
    LostWakeUp,
    /// A try that finds the name busy stays in the queue.
    TryQueues,
    /// Nobody is told that its lease was taken away.
    SilentEviction,
    /// A repeated claim is taken for a new one.
    ForgetsItsClaims,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ReleaseWithoutCompare,
        Self::RenewResurrects,
        Self::RenewWithoutCompare,
        Self::DeadlineFromReply,
        Self::CancelWithoutRelease,
        Self::VolatileFence,
        Self::LostWakeUp,
        Self::TryQueues,
        Self::SilentEviction,
        Self::ForgetsItsClaims,
    ];

    /// The engine, made wrong.
    #[must_use]
    pub fn of(self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        match self {
            Self::ReleaseWithoutCompare => Twisted::around(engine, ReleaseWithoutCompare),
            Self::RenewResurrects => Twisted::around(engine, RenewResurrects),
            Self::RenewWithoutCompare => Twisted::around(engine, RenewWithoutCompare::default()),
            Self::DeadlineFromReply => Twisted::around(engine, DeadlineFromReply),
            Self::CancelWithoutRelease => Twisted::around(engine, CancelWithoutRelease::default()),
            Self::VolatileFence => Twisted::around(engine, VolatileFence::default()),
            Self::LostWakeUp => Twisted::around(engine, LostWakeUp),
            Self::TryQueues => Twisted::around(engine, TryQueues),
            Self::SilentEviction => Twisted::around(engine, SilentEviction::default()),
            Self::ForgetsItsClaims => Twisted::around(engine, ForgetsItsClaims),
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct ReleaseWithoutCompare;

impl Twist for ReleaseWithoutCompare {
    fn release(&self, inner: &Inner, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let everyone = Eviction::new(ticket.name.clone(), Target::All, "mutant", "DEL")?;
            inner.release(ticket, Ending::new()).await?;
            inner.evict(everyone).await?;
            Ok(Released::Released)
        })
    }
}

#[derive(Debug)]
struct RenewResurrects;

impl Twist for RenewResurrects {
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let mut answers = inner.renew(tickets.clone()).await;
            for (answer, Refresh { ticket, ttl, .. }) in answers.iter_mut().zip(tickets) {
                if matches!(answer, Renewal::Gone)
                    && let Ok(Verdict::Granted(Grant { ttl, sent_at, .. })) =
                        inner.acquire(Claim::new(ticket, Owner::new("mutant"), ttl)).await
                {
                    *answer = Renewal::Held { ttl, sent_at };
                }
            }
            answers
        })
    }
}

#[derive(Debug, Default)]
struct RenewWithoutCompare {
    last: Arc<Mutex<HashMap<Name, Ticket>>>,
}

impl Twist for RenewWithoutCompare {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (last, ticket, asked) =
            (Arc::clone(&self.last), claim.ticket.clone(), inner.acquire(claim));
        Box::pin(async move {
            let verdict = asked.await?;
            if let Verdict::Granted(_) = &verdict {
                lock(&last).insert(ticket.name.clone(), ticket);
            }
            Ok(verdict)
        })
    }

    fn renew(&self, inner: &Inner, mut tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        for refresh in &mut tickets {
            if let Some(holder) = lock(&self.last).get(&refresh.ticket.name) {
                refresh.ticket = holder.clone();
            }
        }
        inner.renew(tickets)
    }
}

#[derive(Debug)]
struct DeadlineFromReply;

impl Twist for DeadlineFromReply {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let asked = inner.acquire(claim);
        Box::pin(async move {
            let mut verdict = asked.await?;
            if let Verdict::Granted(grant) = &mut verdict {
                tokio::time::sleep(Duration::from_millis(100)).await;
                grant.sent_at = Clock::System.now();
            }
            Ok(verdict)
        })
    }
}

#[derive(Debug, Default)]
struct CancelWithoutRelease {
    queued: Arc<Mutex<HashSet<LeaseId>>>,
}

impl Twist for CancelWithoutRelease {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (queued, id, asked) = (Arc::clone(&self.queued), claim.ticket.id, inner.acquire(claim));
        Box::pin(async move {
            let verdict = asked.await?;
            match &verdict {
                Verdict::Busy(busy) if busy.place.is_some() => lock(&queued).insert(id),
                _ => lock(&queued).remove(&id),
            };
            Ok(verdict)
        })
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (queued, id, waited) = (Arc::clone(&self.queued), ticket.id, inner.wait(ticket, until));
        Box::pin(async move {
            let wake = waited.await?;
            if let Wake::Granted { .. } = wake {
                lock(&queued).remove(&id);
            }
            Ok(wake)
        })
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        if lock(&self.queued).contains(&ticket.id) {
            return Box::pin(std::future::ready(Ok(Released::Released)));
        }
        inner.release(ticket, ending)
    }
}

#[derive(Debug, Default)]
struct VolatileFence {
    counters: Arc<Mutex<HashMap<Name, (u64, u64)>>>,
}

impl VolatileFence {
    /// The real fence becomes the next of a counter that an expiry resets.
    fn number(
        counters: &Mutex<HashMap<Name, (u64, u64)>>,
        name: &Name,
        real: u64,
        predecessor: Predecessor,
    ) -> u64 {
        let mut counters = lock(counters);
        let (seen, count) = counters.entry(name.clone()).or_default();
        if *seen != real {
            *count = if predecessor == Predecessor::Expired { 1 } else { *count + 1 };
            *seen = real;
        }
        *count
    }
}

impl Twist for VolatileFence {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (counters, name) = (Arc::clone(&self.counters), claim.ticket.name.clone());
        let asked = inner.acquire(claim);
        Box::pin(async move {
            let mut verdict = asked.await?;
            if let Verdict::Granted(grant) = &mut verdict {
                grant.fence = Self::number(&counters, &name, grant.fence, grant.predecessor);
            }
            Ok(verdict)
        })
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (counters, name) = (Arc::clone(&self.counters), ticket.name.clone());
        let waited = inner.wait(ticket, until);
        Box::pin(async move {
            let mut wake = waited.await?;
            if let Wake::Granted { fence, predecessor } = &mut wake {
                *fence = Self::number(&counters, &name, *fence, *predecessor);
            }
            Ok(wake)
        })
    }
}

#[derive(Debug)]
struct LostWakeUp;

impl Twist for LostWakeUp {
    fn wait(&self, _: &Inner, _: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        Box::pin(async move {
            tokio::time::sleep(until.since(Clock::System.now())).await;
            Ok(Wake::Look)
        })
    }
}

#[derive(Debug)]
struct TryQueues;

impl Twist for TryQueues {
    fn acquire(&self, inner: &Inner, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        claim.stance = Stance::Wait { until: Moment::NEVER };
        inner.acquire(claim)
    }
}

#[derive(Debug, Default)]
struct SilentEviction {
    nobody: Bus,
}

impl Twist for SilentEviction {
    fn events(&self, _: &Inner) -> Events {
        self.nobody.subscribe()
    }
}

#[derive(Debug)]
struct ForgetsItsClaims;

impl Twist for ForgetsItsClaims {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            // Whoever holds it, this claim included, is in the way.
            let mut second = claim.clone();
            second.ticket = Ticket::new(claim.ticket.name.clone(), claim.ticket.mode);
            second.stance = Stance::Try;
            match inner.acquire(second.clone()).await? {
                Verdict::Busy(busy) if claim.stance == Stance::Try => Ok(Verdict::Busy(busy)),
                Verdict::Busy(_) => inner.acquire(claim).await,
                Verdict::Granted(_) => {
                    inner.release(second.ticket, Ending::new()).await?;
                    inner.acquire(claim).await
                }
            }
        })
    }
}
