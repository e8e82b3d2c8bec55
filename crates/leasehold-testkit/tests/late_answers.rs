//! Answers that are late, lost, or less than before: the library above an engine
//! that does as told, on a clock that stands still.

#![allow(clippy::disallowed_methods, reason = "this is the user's side: it spawns and sleeps")]

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::claim::{
    Claim, Ending, LeaseId, Place, Refresh, Renewal, SPAN_MAX, Stance, Ticket, Verdict, Wake,
};
use leasehold::engine::profile::Timekeeper;
use leasehold::engine::{BoxFuture, Bus, Event, Events, Eviction, Target};
use leasehold::once::{Fingerprint, OnBusy, OnceError};
use leasehold::{
    Effect, Error, ErrorKind, Guard, Locks, Loss, Mode, Moment, Owner, Profile, Released, Result,
    Standing, TestClock,
};
use leasehold_testkit::twist::{Inner, Requests, Twist, Twisted};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
/// How long to wait for what must come: a bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(30);

/// Locks over a twisted engine on a clock that stands still, and those below.
fn twisted(twist: impl Twist) -> (Locks, Locks, TestClock) {
    twisted_on(TestClock::new(), twist)
}

fn twisted_on(clock: TestClock, twist: impl Twist) -> (Locks, Locks, TestClock) {
    let below = Locks::memory_on(clock.clone());
    let above = Locks::on(Twisted::around(below.engine(), twist), clock.clone()).unwrap();
    (above, below, clock)
}

/// Looks again and again until it is so.
async fn until(what: &str, so: impl Fn() -> bool + Send + Sync) {
    let looks = async {
        while !so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, looks).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"));
}

fn no_reply() -> Error {
    Error::new(ErrorKind::Unavailable, "no reply").unknown()
}

/// What the next conversion or renewal comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// What the engine says.
    #[default]
    Heard,
    /// It is carried out, and nobody hears of it.
    Unheard,
    /// It gets lost on its way, and nobody knows.
    Lost,
    /// It is not sent, and that is known.
    Unsent,
    /// It is under way for ever.
    Stuck,
}

/// A line on which one request meets what was planned for it.
#[derive(Clone, Debug, Default)]
struct Line(Arc<Plan>);

#[derive(Debug, Default)]
struct Plan {
    next: Mutex<Next>,
    converted: AtomicU32,
    renewed: AtomicU32,
    look: Notify,
}

impl Line {
    fn plan(&self, next: Next) {
        *self.0.next.lock().unwrap() = next;
    }

    fn next(&self) -> Next {
        std::mem::take(&mut *self.0.next.lock().unwrap())
    }

    fn converted(&self) -> u32 {
        self.0.converted.load(Ordering::SeqCst)
    }

    fn renewed(&self) -> u32 {
        self.0.renewed.load(Ordering::SeqCst)
    }
}

impl Twist for Line {
    fn convert(&self, inner: &Inner, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.0.converted.fetch_add(1, Ordering::SeqCst);
        match self.next() {
            Next::Heard => inner.convert(ticket, to),
            Next::Unheard => {
                let done = inner.convert(ticket, to);
                Box::pin(async move { done.await.and(Err(no_reply())) })
            }
            Next::Lost => Box::pin(ready(Err(no_reply()))),
            Next::Unsent => Box::pin(ready(Err(Error::new(ErrorKind::Unavailable, "away")))),
            Next::Stuck => Box::pin(pending()),
        }
    }

    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        self.0.renewed.fetch_add(1, Ordering::SeqCst);
        match self.next() {
            Next::Heard => inner.renew(tickets),
            Next::Stuck => Box::pin(pending()),
            _ => Box::pin(ready(tickets.iter().map(|_| Renewal::Unknown(no_reply())).collect())),
        }
    }

    fn wait(&self, inner: &Inner, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        let (plan, waited) = (Arc::clone(&self.0), inner.wait(ticket, until));
        Box::pin(async move {
            tokio::select! {
                biased;
                wake = waited => wake,
                () = plan.look.notified() => Ok(Wake::Look),
            }
        })
    }
}

// -- extensions

#[tokio::test]
async fn an_extension_out_of_range_is_refused_like_a_claim_before_anything_is_sent() {
    let requests = Requests::default();
    let (locks, _below, _clock) = twisted(requests.clone());
    let max = locks.profile().limits.ttl_max;
    for fixed in [true, false] {
        let job = locks.mutex("n").ttl(2 * SECOND).renew(!fixed);
        let guard = job.lock().await.unwrap();
        let renewals = || requests.count() - requests.turns();
        let (deadline, sent) = (guard.deadline(), renewals());
        for ttl in [Duration::ZERO, max + Duration::from_nanos(1), Duration::MAX] {
            let error = guard.extend(ttl).await.unwrap_err();
            let claim = locks.mutex("m").ttl(ttl).try_lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(claim.to_string().contains(&error.to_string()), "{claim} / {error}");
        }
        assert_eq!((guard.deadline(), renewals()), (deadline, sent));
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_extension_that_fails_leaves_a_fixed_lease_as_it_was() {
    let line = Line::default();
    let (locks, _below, clock) = twisted(line.clone());
    let guard = locks.mutex("n").ttl(2 * SECOND).renew(false).lock().await.unwrap();
    let deadline = guard.deadline();
    line.plan(Next::Lost);
    assert_eq!(guard.extend(3600 * SECOND).await.unwrap_err().effect(), Effect::Unknown);
    assert_eq!((guard.deadline(), guard.standing()), (deadline, Standing::Held));
    let told = guard.lost();
    for _ in 0..8 {
        clock.advance(SECOND / 4);
        sleep(Duration::from_millis(5)).await;
    }
    assert!(guard.check().unwrap_err().is_lost(), "{:?} left", guard.remaining());
    assert_eq!(timeout(PATIENCE, told).await.unwrap(), Standing::Lost(Loss::Expired));
    assert_eq!(line.renewed(), 1, "nobody renews a fixed lease");
}

#[tokio::test]
async fn a_failed_extension_can_be_repeated() {
    let line = Line::default();
    let (locks, _below, clock) = twisted(line.clone());
    let guard = locks.mutex("n").ttl(2 * SECOND).renew(false).lock().await.unwrap();
    line.plan(Next::Lost);
    guard.extend(60 * SECOND).await.unwrap_err();
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.remaining(), 60 * SECOND);
    clock.advance(59 * SECOND);
    guard.check().unwrap();
}

/// A client whose server has a clock of its own.
#[derive(Debug)]
struct Served(Profile);

impl Served {
    fn new() -> Self {
        let mut profile = Locks::memory().profile().clone();
        profile.clock = Timekeeper::Server;
        Self(profile)
    }
}

impl Twist for Served {
    fn profile<'a>(&'a self, _: &'a Inner) -> &'a Profile {
        &self.0
    }
}

#[tokio::test]
async fn what_is_given_up_for_drift_is_a_part_of_what_was_confirmed() {
    let (locks, _below, _clock) = twisted(Served::new());
    let guard = locks.mutex("n").ttl(SECOND).renew(false).lock().await.unwrap();
    guard.extend(100_000 * SECOND).await.unwrap();
    let given_up = (100_000 * SECOND).checked_sub(guard.remaining()).unwrap();
    assert_eq!(given_up, locks.profile().drift(100_000 * SECOND));
}

/// Grants less with each renewal, as a server does whose limits were lowered.
#[derive(Debug)]
struct Meaner;

impl Twist for Meaner {
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let answers = inner.renew(tickets);
        Box::pin(async move {
            let mut answers = answers.await;
            for answer in &mut answers {
                if let Renewal::Held { ttl, .. } = answer {
                    *ttl = 3 * SECOND;
                }
            }
            answers
        })
    }
}

#[tokio::test]
async fn a_guard_believes_no_more_than_the_engine_last_said() {
    let (locks, _below, clock) = twisted(Meaner);
    let guard = locks.mutex("n").ttl(30 * SECOND).lock().await.unwrap();
    let first = guard.deadline();
    clock.advance(10 * SECOND);
    until("a renewal", || guard.deadline() != first).await;
    assert!(guard.remaining() <= 3 * SECOND, "{:?}", guard.remaining());
    guard.check().unwrap();
}

#[tokio::test]
async fn a_renewal_out_of_range_is_refused_and_the_others_of_its_batch_are_not() {
    let locks = Locks::memory();
    let max = locks.profile().limits.ttl_max;
    let guards = [locks.mutex("a").lock().await.unwrap(), locks.mutex("b").lock().await.unwrap()];
    let engine = locks.engine();
    let ticket = |name: &str| Ticket::new(locks.name(name).unwrap(), Mode::Exclusive);
    let claims = ["c", "d"].map(|name| Claim::new(ticket(name), Owner::new("test"), SECOND));
    for claim in &claims {
        assert!(matches!(engine.acquire(claim.clone()).await.unwrap(), Verdict::Granted(_)));
    }
    let [c, d] = claims.map(|claim| claim.ticket);
    let asked = vec![
        Refresh::new(c.clone(), SECOND),
        Refresh::new(c, max + SECOND),
        Refresh::new(d, 2 * SECOND),
    ];
    let answers = engine.renew(asked).await;
    let [Renewal::Held { .. }, Renewal::Unknown(error), Renewal::Held { ttl, .. }] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::NotApplied));
    assert_eq!(*ttl, 2 * SECOND);
    guards.iter().for_each(|guard| guard.check().unwrap());
}

#[tokio::test]
async fn who_enters_again_obeys_the_limits_of_a_claim() {
    let locks = Locks::memory().owned_by(&Owner::new("me"));
    let outer = locks.mutex("n").lock().await.unwrap();
    let error = locks.mutex("n").ttl(Duration::MAX).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(outer.release().await.unwrap(), Released::Released, "no share of it was left");
}

// -- conversions

async fn writer(locks: &Locks) -> Guard {
    locks.rwlock("n").ttl(30 * SECOND).write().await.unwrap()
}

#[tokio::test]
async fn a_conversion_whose_reply_is_lost_leaves_a_reader() {
    for next in [Next::Unheard, Next::Lost] {
        let line = Line::default();
        let (locks, below, clock) = twisted(line.clone());
        let mut guard = writer(&locks).await;
        line.plan(next);
        assert_eq!(guard.convert(Mode::Read).await.unwrap_err().effect(), Effect::Unknown);
        assert_eq!(guard.mode(), Mode::Read, "a reader may stand beside it");
        // It may be under way still: nothing makes a writer of it again.
        let back = guard.convert(Mode::Write).await.unwrap_err();
        assert_eq!((back.kind(), guard.mode()), (ErrorKind::Invalid, Mode::Read));
        let beside = below.rwlock("n").try_read().await.unwrap();
        assert_eq!(beside.is_some(), next == Next::Unheard);
        drop(beside);
        // The keeper asks again with its next renewal.
        clock.advance(10 * SECOND);
        until("it is settled", || line.converted() == 2 && line.renewed() == 1).await;
        assert!(below.rwlock("n").try_read().await.unwrap().is_some(), "{next:?}");
        assert_eq!((guard.mode(), guard.check().is_ok()), (Mode::Read, true));
        clock.advance(10 * SECOND);
        until("it is renewed as usual", || line.renewed() == 2).await;
        assert_eq!(line.converted(), 2, "what is settled is not asked again");
    }
}

#[tokio::test]
async fn a_conversion_stays_unsettled_when_its_repetition_is_not_sent() {
    let line = Line::default();
    let (locks, _below, _clock) = twisted(line.clone());
    let mut guard = writer(&locks).await;
    line.plan(Next::Unheard);
    guard.convert(Mode::Read).await.unwrap_err();
    line.plan(Next::Unsent);
    guard.convert(Mode::Read).await.unwrap_err();
    assert_eq!(guard.mode(), Mode::Read, "the first may have been carried out");
    guard.convert(Mode::Read).await.unwrap();
    assert_eq!(guard.mode(), Mode::Read);
}

#[tokio::test]
async fn a_conversion_that_is_refused_leaves_a_writer_that_is_renewed() {
    let line = Line::default();
    let (locks, _below, clock) = twisted(line.clone());
    let mut guard = writer(&locks).await;
    line.plan(Next::Unsent);
    assert_eq!(guard.convert(Mode::Read).await.unwrap_err().effect(), Effect::NotApplied);
    assert_eq!((guard.mode(), guard.standing()), (Mode::Write, Standing::Held));
    clock.advance(10 * SECOND);
    until("a renewal", || line.renewed() == 1).await;
    guard.check().unwrap();
}

#[tokio::test]
async fn what_is_released_while_its_mode_is_unknown_is_free() {
    for next in [Next::Unheard, Next::Lost] {
        let line = Line::default();
        let (locks, below, _clock) = twisted(line.clone());
        let mut guard = writer(&locks).await;
        line.plan(next);
        guard.convert(Mode::Read).await.unwrap_err();
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert!(!below.status("n").await.unwrap().is_busy());
    }
}

// -- grants

/// Takes the next lease away before its grant is heard, once it has a canary,
/// and tells so first.
#[derive(Clone, Debug, Default)]
struct TakenAway(Arc<Mutex<Option<Guard>>>);

impl Twist for TakenAway {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let Some(canary) = self.0.lock().unwrap().take() else { return inner.acquire(claim) };
        let inner = Inner::clone(inner);
        Box::pin(async move {
            let name = claim.ticket.name.clone();
            let verdict = inner.acquire(claim).await?;
            for name in [name, canary.name().clone()] {
                inner.evict(Eviction::new(name, Target::All, "ops", "a test")?).await?;
            }
            // News comes in order: the first was heard when the second is.
            canary.lost().await;
            Ok(verdict)
        })
    }
}

#[tokio::test]
async fn a_grant_that_comes_after_the_news_of_its_loss_is_not_believed() {
    let taken = TakenAway::default();
    let (locks, below, clock) = twisted(taken.clone());
    for waits in [false, true] {
        let canary = locks.mutex("canary").lock().await.unwrap();
        *taken.0.lock().unwrap() = Some(canary);
        let mutex = locks.mutex("n");
        let asked =
            async { if waits { mutex.lock().await.map(Some) } else { mutex.try_lock().await } };
        let guard = timeout(PATIENCE, asked).await.unwrap().unwrap().unwrap();
        let held = below.status("n").await.unwrap().holders;
        assert_eq!(held.len(), 1, "the guard says {:?}", guard.standing());
        assert_eq!(held[0].fence, Some(guard.fence()));
        clock.advance(SECOND);
        guard.release().await.unwrap();
    }
}

/// Tells that less is kept of the next lease before its grant is heard, once it
/// has a canary.
#[derive(Clone, Debug)]
struct CutShort {
    bus: Arc<Bus>,
    seen: Arc<Mutex<Vec<LeaseId>>>,
    canary: Arc<Mutex<Option<Guard>>>,
}

impl Twist for CutShort {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.seen.lock().unwrap().push(claim.ticket.id);
        let Some(canary) = self.canary.lock().unwrap().take() else { return inner.acquire(claim) };
        let (inner, twist, id) = (Inner::clone(inner), self.clone(), claim.ticket.id);
        Box::pin(async move {
            let verdict = inner.acquire(claim).await?;
            let Verdict::Granted(grant) = &verdict else { return Ok(verdict) };
            let first = twist.seen.lock().unwrap()[0];
            twist.bus.publish(&Event::Kept(id, Place::new(3 * SECOND, grant.sent_at)));
            twist.bus.publish(&Event::TicketLost(first, Loss::Gone));
            // News comes in order: the first was heard when the second is.
            canary.lost().await;
            Ok(verdict)
        })
    }

    fn events(&self, _: &Inner) -> Events {
        self.bus.subscribe()
    }
}

#[tokio::test]
async fn a_grant_is_believed_for_no_longer_than_was_told_before_it_came() {
    for waits in [false, true] {
        let clock = TestClock::new();
        let bus = Arc::new(Bus::new(clock.clone().into()));
        let cut = CutShort { bus, seen: Arc::default(), canary: Arc::default() };
        let (locks, _below, _clock) = twisted_on(clock, cut.clone());
        let canary = locks.mutex("canary").ttl(30 * SECOND).lock().await.unwrap();
        *cut.canary.lock().unwrap() = Some(canary);
        let mutex = locks.mutex("n").ttl(30 * SECOND);
        let asked =
            async { if waits { mutex.lock().await.map(Some) } else { mutex.try_lock().await } };
        let guard = timeout(PATIENCE, asked).await.unwrap().unwrap().unwrap();
        assert!(guard.remaining() <= 3 * SECOND, "{:?}", guard.remaining());
    }
}

/// Answers a claim a little later, as every engine does that is not in this process.
#[derive(Debug)]
struct Away;

impl Twist for Away {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        assert_eq!(claim.stance, Stance::Try, "who has no time does not queue");
        let answer = inner.acquire(claim);
        Box::pin(async move {
            sleep(Duration::from_millis(5)).await;
            answer.await
        })
    }
}

#[tokio::test]
async fn who_has_no_time_to_wait_takes_what_the_first_answer_says() {
    let (locks, below, _clock) = twisted(Away);
    let mutex = locks.mutex("n");
    let guard = mutex.lock().within(Duration::ZERO).await.unwrap();
    let error = mutex.lock().within(Duration::ZERO).await.unwrap_err();
    assert!(error.is_timed_out() && error.effect() == Effect::NotApplied, "{error:?}");
    assert!(error.to_string().contains("held by"), "{error}");
    guard.release().await.unwrap();
    assert!(!below.status("n").await.unwrap().is_busy());
    let memory = Locks::memory();
    memory.mutex("n").lock().within(Duration::ZERO).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_wait_limit_holds_although_a_renewal_of_the_place_is_stuck() {
    let line = Line::default();
    let (locks, below, clock) = twisted(line.clone());
    let _held = below.mutex("n").ttl(3600 * SECOND).lock().await.unwrap();
    let mutex = locks.mutex("n").ttl(30 * SECOND);
    let waiter = tokio::spawn(mutex.lock().within(20 * SECOND).into_future());
    while mutex.status().await.unwrap().waiters.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    line.plan(Next::Stuck);
    clock.advance(10 * SECOND);
    until("the place is renewed", || line.renewed() == 1).await;
    line.0.look.notify_one();
    sleep(Duration::from_millis(20)).await;
    clock.advance(10 * SECOND);
    let error = timeout(PATIENCE, waiter).await.expect("it ends in time").unwrap().unwrap_err();
    assert!(error.is_timed_out(), "{error}");
}

// -- the end

/// Releases that are under way for ever, and a count of what was closed.
#[derive(Clone, Debug, Default)]
struct Hanging(Arc<AtomicU32>);

impl Twist for Hanging {
    fn release(&self, _: &Inner, _: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(pending())
    }

    fn closed(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_shutdown_that_times_out_closes_the_engine_all_the_same() {
    let hanging = Hanging::default();
    let (locks, _below, clock) = twisted(hanging.clone());
    let guard = locks.mutex("n").lock().await.unwrap();
    let going = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.shutdown(SECOND).await })
    };
    until("it gives up", || {
        clock.advance(SECOND);
        going.is_finished()
    })
    .await;
    let error = timeout(PATIENCE, going).await.unwrap().unwrap().unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    until("it is closed", || hanging.0.load(Ordering::SeqCst) == 1).await;
    drop((guard, locks));
    assert_eq!(hanging.0.load(Ordering::SeqCst), 1, "and closed once");
}

// -- once

#[tokio::test]
async fn work_whose_lease_is_lost_in_the_middle_is_cut_off_and_not_refused() {
    let clock = TestClock::new();
    let once = Locks::memory_on(clock.clone()).once("pay");
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let task = tokio::spawn(async move {
        let work = async |_| {
            begins.store(true, Ordering::SeqCst);
            pending::<()>().await;
            Ok::<_, String>("paid")
        };
        once.run("key", Fingerprint::none(), work).await
    });
    until("the work begins", || begun.load(Ordering::SeqCst)).await;
    clock.advance(31 * SECOND);
    let told = timeout(PATIENCE, task).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&told, OnceError::CutOff(error) if error.is_lost()), "{told:?}");
}

#[tokio::test]
async fn a_wall_clock_that_is_ahead_does_not_run_the_work_again() {
    let (clock, ahead) = (TestClock::new(), TestClock::new());
    ahead.advance(61 * SECOND);
    let one = Locks::memory_on(clock);
    let two = Locks::on(one.engine(), ahead).unwrap();
    for (locks, replayed) in [(one, false), (two, true)] {
        let once = locks.once("pay").keep(60 * SECOND);
        let done = once.run("key", Fingerprint::none(), async |_| Ok::<_, String>("paid")).await;
        assert_eq!(done.unwrap().replayed, replayed);
    }
}

/// What is stored with releases: for how long.
#[derive(Clone, Debug, Default)]
struct Stored(Arc<Mutex<Vec<Duration>>>);

impl Twist for Stored {
    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let ttl = ending.store.as_ref().and_then(|store| store.ttl);
        self.0.lock().unwrap().extend(ttl);
        inner.release(ticket, ending)
    }
}

#[tokio::test]
async fn an_outcome_that_is_kept_for_ever_is_kept_for_as_long_as_a_store_can_tell() {
    let stored = Stored::default();
    let (locks, _below, _clock) = twisted(stored.clone());
    let once = locks.once("pay").keep(Duration::MAX).tombstone(Duration::MAX);
    for replayed in [false, true] {
        let done = once.run("key", Fingerprint::none(), async |_| Ok::<_, String>("paid")).await;
        assert_eq!(done.unwrap().replayed, replayed);
    }
    assert_eq!(*stored.0.lock().unwrap(), [SPAN_MAX]);
}

#[tokio::test]
async fn who_has_no_time_to_wait_for_an_outcome_takes_the_first_answer() {
    let (locks, _below, _clock) = twisted(Away);
    let once = locks.once("pay").on_busy(OnBusy::Wait(Duration::ZERO));
    let done = once.run("key", Fingerprint::none(), async |_| Ok::<_, String>("paid")).await;
    assert!(!done.unwrap().replayed);
}
