//! Many leases that are due at once, on an engine that answers renewals when it is
//! told to.

#![expect(clippy::disallowed_methods, reason = "these tasks are the user's")]

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::UNDER_WAY;
use super::renewal_queue::PORTION;
use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment, TestClock};
use crate::engine::{
    BoxFuture, Bus, Engine, Event, Events, Evicted, Eviction, Finding, Listing, Loss, Page,
    Profile, RecordStore, Selector,
};
use crate::engines::memory::Memory;
use crate::error::Result;
use crate::{Guard, Locks, Standing};

const SECOND: Duration = Duration::from_secs(1);

/// The memory engine, whose answers to renewals may have to wait.
#[derive(Debug)]
struct Reluctant {
    memory: Memory,
    /// Its clock stands still: what is told was told at the beginning.
    bus: Bus,
    /// One for each renewal request that may be answered.
    answers: Arc<Semaphore>,
    /// One for each release that may be answered.
    releases: Arc<Semaphore>,
    seen: Arc<Mutex<Seen>>,
}

/// What it was asked for.
#[derive(Debug, Default)]
struct Seen {
    /// How many tickets each renewal request had.
    requests: Vec<usize>,
    /// How many tickets were asked for and not answered.
    under_way: usize,
    /// How many those were when a claim came.
    before_claim: usize,
    renewed: Vec<Ticket>,
    given_back: usize,
    claimed: Vec<Ticket>,
}

/// Locks on it.
struct Crowd {
    locks: Locks,
    engine: Arc<Reluctant>,
    clock: TestClock,
}

impl Crowd {
    /// One whose renewals wait for [`Crowd::answer`].
    fn new() -> Self {
        let clock = TestClock::new();
        let engine = Arc::new(Reluctant {
            memory: Memory::new(clock.clone().into()),
            bus: Bus::new(TestClock::new().into()),
            answers: Arc::new(Semaphore::new(0)),
            releases: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            seen: Arc::default(),
        });
        let locks = Locks::on(Arc::clone(&engine) as Arc<dyn Engine>, clock.clone()).unwrap();
        Self { locks, engine, clock }
    }

    async fn take(&self, count: usize, ttl: Duration) -> Vec<Guard> {
        let mut guards = Vec::new();
        for n in 0..count {
            let lock = self.locks.mutex(format!("{ttl:?}/{n}")).ttl(ttl);
            guards.push(lock.lock().await.unwrap());
        }
        guards
    }

    fn answer(&self, requests: usize) {
        self.engine.answers.add_permits(requests);
    }

    fn requests(&self) -> Vec<usize> {
        self.engine.seen.lock().unwrap().requests.clone()
    }

    async fn asked(&self, tickets: usize) {
        until(|| self.requests().iter().sum::<usize>() >= tickets).await;
    }
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_renews_a_portion_and_no_lease_is_left_out() {
    let crowd = Crowd::new();
    crowd.answer(1000);
    let guards = crowd.take(3 * PORTION + 7, 30 * SECOND).await;
    let before = guards[0].deadline();
    for round in 1..4_u32 {
        crowd.clock.advance(10 * SECOND);
        let renewed = |guard: &Guard| guard.deadline() == before.after(10 * round * SECOND);
        until(|| guards.iter().all(renewed)).await;
    }
    let requests = crowd.requests();
    assert!(requests.iter().all(|tickets| *tickets <= PORTION), "{requests:?}");
    assert_eq!(requests.iter().sum::<usize>(), 3 * guards.len(), "each once");
    assert!(requests.len() <= 3 * 4, "as few as can be: {requests:?}");
}

#[tokio::test]
async fn a_few_requests_are_under_way_and_the_rest_leaves_before_it_is_late() {
    let crowd = Crowd::new();
    let guards = crowd.take(7 * PORTION, 30 * SECOND).await;
    crowd.clock.advance(10 * SECOND);
    crowd.asked(UNDER_WAY * PORTION).await;
    drop(crowd.locks.mutex("another").lock().await.unwrap());
    assert_eq!(crowd.engine.seen.lock().unwrap().before_claim, UNDER_WAY * PORTION);
    crowd.answer(1);
    crowd.asked((UNDER_WAY + 1) * PORTION).await;
    crowd.clock.advance(30 * SECOND / 12);
    // Without a single answer more.
    crowd.asked(7 * PORTION).await;
    crowd.answer(6);
    let renewed = |guard: &Guard| guard.remaining() > 25 * SECOND;
    until(|| guards.iter().all(renewed)).await;
}

#[tokio::test]
async fn a_short_lease_does_not_wait_for_the_answers_of_long_ones() {
    let crowd = Crowd::new();
    let long = crowd.take((UNDER_WAY + 2) * PORTION, 60 * SECOND).await;
    crowd.clock.advance(20 * SECOND - SECOND / 5);
    let short = crowd.take(1, SECOND).await;
    crowd.clock.advance(SECOND / 5);
    crowd.asked(UNDER_WAY * PORTION).await;
    // More than a third and a twelfth of its ttl.
    crowd.clock.advance(SECOND / 4);
    let name = short[0].name();
    let asked = || crowd.engine.seen.lock().unwrap().renewed.iter().any(|it| it.name == *name);
    until(asked).await;
    assert!(crowd.requests().iter().sum::<usize>() < long.len(), "others still wait");
}

/// Nobody answers: who waits behind others is told of the loss all the same.
#[tokio::test]
async fn a_renewal_that_never_left_is_no_excuse_for_a_late_loss() {
    let crowd = Crowd::new();
    let guards = crowd.take((UNDER_WAY + 2) * PORTION, 30 * SECOND).await;
    crowd.clock.advance(10 * SECOND);
    crowd.asked(UNDER_WAY * PORTION).await;
    crowd.clock.advance(20 * SECOND);
    for guard in &guards {
        assert!(matches!(guard.lost().await, Standing::Lost(Loss::Expired)));
    }
}

#[tokio::test]
async fn every_loss_of_a_burst_reaches_its_guard_and_no_other() {
    let crowd = Crowd::new();
    let mut guards = crowd.take(10_000, 30 * SECOND).await;
    let kept = guards.split_off(5_000);
    let claimed = crowd.engine.seen.lock().unwrap().claimed.clone();
    for ticket in &claimed[..5_000] {
        crowd.engine.bus.publish(&Event::TicketLost(ticket.id, Loss::Gone));
    }
    for ticket in &claimed[5_000..] {
        crowd.engine.bus.publish(&Event::RevocationAsked(ticket.id));
    }
    for guard in guards {
        assert!(matches!(guard.lost().await, Standing::Lost(Loss::Gone)));
    }
    for guard in kept {
        guard.revocation().await;
        guard.check().unwrap();
    }
}

/// The keeper comes to them a second after they were told.
#[tokio::test]
async fn news_of_an_ended_session_ends_nothing_that_was_asked_for_since() {
    let crowd = Crowd::new();
    let before = crowd.take(1, 30 * SECOND).await;
    crowd.clock.advance(SECOND);
    let since = crowd.take(2, 40 * SECOND).await;
    let second = crowd.engine.seen.lock().unwrap().claimed[1].id;
    crowd.engine.bus.publish(&Event::TicketLost(second, Loss::Gone));
    crowd.engine.bus.publish(&Event::Disconnected);
    assert!(matches!(before[0].lost().await, Standing::Lost(Loss::Disconnected)));
    assert!(since.iter().all(|guard| guard.standing() == Standing::Held));
}

/// Whoever has no time to wait is told what it leaves behind.
#[tokio::test]
async fn a_shutdown_says_how_many_leases_it_could_not_give_back() {
    let crowd = Crowd::new();
    let held = crowd.take(2 * PORTION, 30 * SECOND).await;
    let dropped = crowd.take(5, 20 * SECOND).await;
    crowd.engine.releases.forget_permits(usize::MAX);
    crowd.engine.releases.add_permits(5);
    drop(dropped);
    let shutdown = tokio::spawn({
        let locks = crowd.locks.clone();
        async move { locks.shutdown(SECOND).await }
    });
    until(|| held.iter().all(|guard| guard.standing() == Standing::Released)).await;
    crowd.engine.releases.add_permits(PORTION);
    until(|| crowd.engine.seen.lock().unwrap().given_back == PORTION + 5).await;
    crowd.clock.advance(SECOND);
    let error = shutdown.await.unwrap().unwrap_err();
    assert!(error.is_timed_out());
    let expected = "1000 leases could not be given back in time; they end by themselves, the last \
                    within 29s";
    assert!(error.to_string().contains(expected), "{error}");
}

/// All of it is let go of, even if there is no time to wait at all.
#[tokio::test]
async fn a_shutdown_without_time_lets_go_of_everything() {
    let crowd = Crowd::new();
    let held = crowd.take(3 * PORTION, 30 * SECOND).await;
    crowd.engine.releases.forget_permits(usize::MAX);
    let error = crowd.locks.shutdown(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("3000 leases"), "{error}");
    assert!(held.iter().all(|guard| guard.standing() == Standing::Released));
}

/// Guards and handles, all at once, on an engine that takes nothing back: whoever drops
/// them goes on, and all of it is gone once the engine answers after all.
#[tokio::test]
async fn to_drop_more_guards_than_can_be_given_back_ends_soon() {
    let crowd = Crowd::new();
    let guards = crowd.take(20_000, 30 * SECOND).await;
    crowd.engine.releases.forget_permits(usize::MAX);
    let Crowd { locks, engine, .. } = crowd;
    let start = Clock::System.now();
    drop((guards, locks));
    let took = Clock::System.now().since(start);
    assert!(took < 20 * SECOND, "two seconds, if nobody else wants the processor: {took:?}");
    assert_eq!(engine.seen.lock().unwrap().given_back, 0, "it could have been given back");
    engine.releases.add_permits(20_000);
    until(|| Arc::strong_count(&engine) == 1).await;
}

impl Engine for Reluctant {
    fn profile(&self) -> &Profile {
        self.memory.profile()
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let mut seen = self.seen.lock().unwrap();
        seen.before_claim = seen.under_way;
        seen.claimed.push(claim.ticket.clone());
        self.memory.acquire(claim)
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.memory.wait(ticket, until)
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let (seen, answers, count) =
            (Arc::clone(&self.seen), Arc::clone(&self.answers), tickets.len());
        let mut noted = seen.lock().unwrap();
        noted.requests.push(count);
        noted.under_way += count;
        noted.renewed.extend(tickets.iter().map(|refresh| refresh.ticket.clone()));
        drop(noted);
        let renewed = self.memory.renew(tickets);
        Box::pin(async move {
            answers.acquire().await.unwrap().forget();
            seen.lock().unwrap().under_way -= count;
            renewed.await
        })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let (releases, seen) = (Arc::clone(&self.releases), Arc::clone(&self.seen));
        let released = self.memory.release(ticket, ending);
        Box::pin(async move {
            releases.acquire().await.unwrap().forget();
            seen.lock().unwrap().given_back += 1;
            released.await
        })
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.memory.convert(ticket, to)
    }

    fn events(&self) -> Events {
        self.bus.subscribe()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        self.memory.inspect(selector, page)
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        self.memory.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.bus.close();
        self.memory.close()
    }
}
