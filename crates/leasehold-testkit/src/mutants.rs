//! Engines that are wrong on purpose: the suite must find each of them out.
//!
//! Each wraps a good engine through the public contract and does one thing
//! that some lock library out there has really done.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::claim::{
    Busy, Claim, Ending, Grant, LeaseId, Owner, Place, Refresh, Renewal, Stance, Ticket, Verdict,
    Wake,
};
use leasehold::engine::{BoxFuture, Bus, Events, Eviction, Page, Selector, Target};
use leasehold::{Clock, Engine, Mode, Moment, Name, Predecessor, Released, Result};
use tokio::sync::Notify;

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
    /// `SETNX`, and its client died before the `EXPIRE`.
    NeverExpires,
    /// `GET`, compare here, then `DEL`: what came in between is deleted.
    GetThenDel,
    /// The thread is the value: its second claim finds its own name there.
    ThreadAsValue,
    /// The expiry is counted by a clock that is ahead of the holder's.
    ForeignClock,
    /// A claim for many permits takes one.
    PermitsWithoutWeight,
    /// A reader waits for the writers behind it too.
    ReaderWaitsForLaterWriters,
    /// A lease that is handed over keeps the fence of the holder before.
    FenceHandedOn,
    /// A release wakes everyone.
    HerdWake,
    /// The watchdog renews once, and then only says so.
    RenewsOnce,
    /// A lease is renewed for as long as was first asked, whoever re-enters it.
    ReentryKeepsShortTtl,
    /// A writer becomes a reader by letting go and coming back.
    ConvertLetsGo,
    /// `PEXPIRE`: a renewal sets the end, even to an earlier one.
    RenewalShortens,
    /// A conversion that is repeated finds no writer, and says that it is gone.
    ConvertsOnce,
    /// A push that came while nobody listened is told whenever somebody does.
    OldTurns,
    /// A release that deletes a record does so in a second request.
    DeletesAfterwards,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 25] = [
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
        Self::NeverExpires,
        Self::GetThenDel,
        Self::ThreadAsValue,
        Self::ForeignClock,
        Self::PermitsWithoutWeight,
        Self::ReaderWaitsForLaterWriters,
        Self::FenceHandedOn,
        Self::HerdWake,
        Self::RenewsOnce,
        Self::ReentryKeepsShortTtl,
        Self::ConvertLetsGo,
        Self::RenewalShortens,
        Self::ConvertsOnce,
        Self::OldTurns,
        Self::DeletesAfterwards,
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
            Self::NeverExpires => Twisted::around(engine, NeverExpires),
            Self::GetThenDel => Twisted::around(engine, GetThenDel),
            Self::ThreadAsValue => Twisted::around(engine, ThreadAsValue),
            Self::ForeignClock => Twisted::around(engine, ForeignClock),
            Self::PermitsWithoutWeight => Twisted::around(engine, PermitsWithoutWeight),
            Self::ReaderWaitsForLaterWriters => Twisted::around(engine, ReaderWaits),
            Self::FenceHandedOn => Twisted::around(engine, FenceHandedOn::default()),
            Self::HerdWake => Twisted::around(engine, HerdWake::default()),
            Self::RenewsOnce => Twisted::around(engine, RenewsOnce::default()),
            Self::ReentryKeepsShortTtl => Twisted::around(engine, FirstTtl::default()),
            Self::ConvertLetsGo => Twisted::around(engine, ConvertLetsGo),
            Self::RenewalShortens => Twisted::around(engine, RenewalShortens),
            Self::ConvertsOnce => Twisted::around(engine, ConvertsOnce::default()),
            Self::OldTurns => Twisted::around(engine, OldTurns::default()),
            Self::DeletesAfterwards => Twisted::around(engine, DeletesAfterwards),
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

#[derive(Debug)]
struct SilentEviction {
    nobody: Bus,
}

impl Default for SilentEviction {
    fn default() -> Self {
        Self { nobody: Bus::new(Clock::System) }
    }
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

/// Changes a grant on its way up.
fn granting(
    asked: BoxFuture<Result<Verdict>>,
    change: impl FnOnce(&mut Grant) + Send + 'static,
) -> BoxFuture<Result<Verdict>> {
    Box::pin(async move {
        let mut verdict = asked.await?;
        if let Verdict::Granted(grant) = &mut verdict {
            change(grant);
        }
        Ok(verdict)
    })
}

#[derive(Debug)]
struct NeverExpires;

impl Twist for NeverExpires {
    fn acquire(&self, inner: &Inner, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        let ttl = std::mem::replace(&mut claim.ttl, inner.profile().limits.ttl_max);
        granting(inner.acquire(claim), move |grant| grant.ttl = ttl)
    }
}

#[derive(Debug)]
struct GetThenDel;

impl GetThenDel {
    /// Long enough for the lease of a check to run out in between.
    const BETWEEN: Duration = Duration::from_millis(800);

    async fn compare_and_delete(inner: Inner, ticket: Ticket) -> Result<Released> {
        let name = ticket.name.clone();
        let found = inner.inspect(Selector::Name(name.clone()), Page::default()).await?;
        if found.names.iter().all(|status| status.holders.is_empty()) {
            return inner.release(ticket, Ending::new()).await;
        }
        tokio::time::sleep(Self::BETWEEN).await;
        let everyone = Eviction::new(name, Target::All, "mutant", "DEL")?;
        inner.evict(everyone).await?;
        Ok(Released::Released)
    }
}

impl Twist for GetThenDel {
    fn release(&self, inner: &Inner, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(Self::compare_and_delete(Inner::clone(inner), ticket))
    }
}

#[derive(Debug)]
struct ThreadAsValue;

impl ThreadAsValue {
    /// All verbs come from one thread, as with a runtime of one worker.
    const fn on_one_thread(mut ticket: Ticket) -> Ticket {
        ticket.id = LeaseId::from_bits(1);
        ticket
    }
}

impl Twist for ThreadAsValue {
    fn acquire(&self, inner: &Inner, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        claim.ticket.id = LeaseId::from_bits(1);
        inner.acquire(claim)
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        inner.wait(Self::on_one_thread(ticket), until)
    }

    fn renew(&self, inner: &Inner, mut tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        tickets.iter_mut().for_each(|it| it.ticket.id = LeaseId::from_bits(1));
        inner.renew(tickets)
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        inner.release(Self::on_one_thread(ticket), ending)
    }
}

#[derive(Debug)]
struct ForeignClock;

impl Twist for ForeignClock {
    fn acquire(&self, inner: &Inner, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        let ttl = claim.ttl;
        claim.ttl = (ttl / 2).max(inner.profile().limits.ttl_min);
        granting(inner.acquire(claim), move |grant| grant.ttl = ttl)
    }
}

#[derive(Debug)]
struct PermitsWithoutWeight;

impl Twist for PermitsWithoutWeight {
    fn acquire(&self, inner: &Inner, mut claim: Claim) -> BoxFuture<Result<Verdict>> {
        if let Mode::Permits { of, .. } = claim.ticket.mode {
            claim.ticket.mode = Mode::Permits { take: 1, of };
        }
        inner.acquire(claim)
    }
}

#[derive(Debug)]
struct ReaderWaits;

impl ReaderWaits {
    async fn writers_wait(inner: &Inner, name: &Name) -> Result<bool> {
        let found = inner.inspect(Selector::Name(name.clone()), Page::default()).await?;
        let mut waiters = found.names.iter().flat_map(|status| &status.waiters);
        Ok(waiters.any(|waiter| waiter.mode == Mode::Write))
    }
}

impl Twist for ReaderWaits {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let (ticket, tries) = (claim.ticket.clone(), claim.stance == Stance::Try);
            let verdict = inner.acquire(claim).await?;
            let granted = matches!(verdict, Verdict::Granted(_));
            if !granted || tries || ticket.mode != Mode::Read {
                return Ok(verdict);
            }
            if !Self::writers_wait(&inner, &ticket.name).await? {
                return Ok(verdict);
            }
            let mut busy = Busy::new();
            busy.recheck_in = Some(Duration::from_millis(20));
            Ok(Verdict::Busy(busy))
        })
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (reads, waited) = (ticket.mode == Mode::Read, inner.wait(ticket, until));
        Box::pin(async move {
            let wake = waited.await?;
            Ok(if reads { Wake::Look } else { wake })
        })
    }
}

#[derive(Debug, Default)]
struct FenceHandedOn {
    last: Arc<Mutex<HashMap<Name, u64>>>,
}

impl Twist for FenceHandedOn {
    /// It says of no place which fences are old: a waiter that knows does not
    /// believe in one.
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (last, name) = (Arc::clone(&self.last), claim.ticket.name.clone());
        let asked = inner.acquire(claim);
        Box::pin(async move {
            let mut verdict = asked.await?;
            match &mut verdict {
                Verdict::Granted(grant) => drop(lock(&last).insert(name, grant.fence)),
                Verdict::Busy(busy) => busy.place.iter_mut().for_each(|place| place.floor = 0),
            }
            Ok(verdict)
        })
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (last, name) = (Arc::clone(&self.last), ticket.name.clone());
        let waited = inner.wait(ticket, until);
        Box::pin(async move {
            let mut wake = waited.await?;
            if let Wake::Granted { fence, .. } = &mut wake {
                *fence = lock(&last).get(&name).copied().unwrap_or(*fence);
            }
            Ok(wake)
        })
    }
}

#[derive(Debug, Default)]
struct HerdWake {
    released: Arc<Notify>,
}

impl Twist for HerdWake {
    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (released, waited) = (Arc::clone(&self.released), inner.wait(ticket, until));
        Box::pin(async move {
            tokio::select! {
                biased;
                wake = waited => wake,
                () = released.notified() => Ok(Wake::Look),
            }
        })
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let (everyone, released) = (Arc::clone(&self.released), inner.release(ticket, ending));
        Box::pin(async move {
            let answer = released.await;
            everyone.notify_waiters();
            answer
        })
    }
}

#[derive(Debug, Default)]
struct RenewsOnce {
    done: Arc<Mutex<HashSet<LeaseId>>>,
}

impl Twist for RenewsOnce {
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let fresh = |it: &Refresh| lock(&self.done).insert(it.ticket.id);
        if tickets.iter().any(fresh) {
            return inner.renew(tickets);
        }
        let sent_at = Clock::System.now();
        let said = tickets.iter().map(|it| Renewal::Held { ttl: it.ttl, sent_at });
        Box::pin(std::future::ready(said.collect()))
    }
}

#[derive(Debug, Default)]
struct FirstTtl {
    first: Arc<Mutex<HashMap<LeaseId, Duration>>>,
}

impl Twist for FirstTtl {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        lock(&self.first).insert(claim.ticket.id, claim.ttl);
        inner.acquire(claim)
    }

    fn renew(&self, inner: &Inner, mut tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        for refresh in &mut tickets {
            let first = lock(&self.first).get(&refresh.ticket.id).copied();
            refresh.ttl = first.unwrap_or(refresh.ttl);
        }
        inner.renew(tickets)
    }
}

#[derive(Debug)]
struct ConvertLetsGo;

impl Twist for ConvertLetsGo {
    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let ttl = Duration::from_secs(3600);
            inner.release(ticket.clone(), Ending::new()).await?;
            let again = Claim::new(ticket.in_mode(to), Owner::new("mutant"), ttl);
            Ok(match inner.acquire(again).await? {
                Verdict::Granted(grant) => Renewal::Held { ttl, sent_at: grant.sent_at },
                Verdict::Busy(_) => Renewal::Gone,
            })
        })
    }
}

#[derive(Debug)]
struct RenewalShortens;

impl Twist for RenewalShortens {
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let mut answers = inner.renew(tickets.clone()).await;
            for (answer, Refresh { ticket, ttl, .. }) in answers.iter_mut().zip(tickets) {
                if matches!(answer, Renewal::Held { .. })
                    && inner.release(ticket.clone(), Ending::new()).await.is_ok()
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
struct ConvertsOnce {
    done: Arc<Mutex<HashSet<LeaseId>>>,
}

impl Twist for ConvertsOnce {
    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        if lock(&self.done).insert(ticket.id) {
            return inner.convert(ticket, to);
        }
        Box::pin(std::future::ready(Ok(Renewal::Gone)))
    }
}

/// What was handed over, as a channel beside the engine would have pushed it.
#[derive(Debug, Default)]
struct OldTurns {
    pushed: Arc<Mutex<HashMap<LeaseId, Wake>>>,
    queued: Arc<Mutex<HashMap<Name, Ticket>>>,
}

impl Twist for OldTurns {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let (queued, ticket) = (Arc::clone(&self.queued), claim.ticket.clone());
        let asked = inner.acquire(claim);
        Box::pin(async move {
            let mut verdict = asked.await?;
            if let Verdict::Busy(Busy { place: Some(place), .. }) = &mut verdict {
                // It does not say what was given out before.
                *place = Place::new(place.ttl, place.sent_at);
                lock(&queued).insert(ticket.name.clone(), ticket);
            }
            Ok(verdict)
        })
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let (inner, pushed) = (Inner::clone(inner), Arc::clone(&self.pushed));
        let next = lock(&self.queued).remove(&ticket.name);
        Box::pin(async move {
            let released = inner.release(ticket, ending).await;
            if let Some(next) = next {
                let now = Clock::System.now();
                if let wake @ Wake::Granted { .. } = inner.wait(next.clone(), now).await? {
                    lock(&pushed).insert(next.id, wake);
                }
            }
            released
        })
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        match lock(&self.pushed).get(&ticket.id) {
            Some(wake) => Box::pin(std::future::ready(Ok(wake.clone()))),
            None => inner.wait(ticket, until),
        }
    }
}

#[derive(Debug)]
struct DeletesAfterwards;

impl DeletesAfterwards {
    /// Long enough for whoever is served next to look.
    const BETWEEN: Duration = Duration::from_millis(200);
}

impl Twist for DeletesAfterwards {
    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        mut ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let Some(deletion) = ending.store.take_if(|store| store.value.is_none()) else {
            return inner.release(ticket, ending);
        };
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let released = inner.release(ticket, ending).await?;
            tokio::time::sleep(Self::BETWEEN).await;
            if let Some(records) = inner.records() {
                let _ = records.store(deletion).await?;
            }
            Ok(released)
        })
    }
}
