//! The retry layer, over an engine that fails as told. The layer is private to
//! the library: this is its own source (see `build.rs`).

#![allow(dead_code, unreachable_pub, clippy::redundant_pub_crate, clippy::disallowed_methods)]

mod claim {
    pub(crate) use leasehold::claim::*;
}

mod clock {
    pub(crate) use leasehold::{Clock, Moment};

    pub(crate) async fn nap(span: std::time::Duration) {
        tokio::time::sleep(span).await;
    }
}

mod engine {
    pub(crate) use leasehold::Engine;
    pub(crate) use leasehold::engine::*;
}

mod error {
    pub(crate) use leasehold::{Effect, Error, ErrorKind, Result};
}

mod mutant {
    include!(concat!(env!("OUT_DIR"), "/mutant.rs"));
}

mod url {
    pub(crate) fn span(text: &str) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_millis(text.strip_suffix("ms")?.parse().ok()?))
    }
}

mod retry {
    include!(concat!(env!("OUT_DIR"), "/retry.rs"));
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::claim::{Claim, Ending, Owner, Ticket, Verdict};
use leasehold::engine::{BoxFuture, Store};
use leasehold::{Clock, Effect, Engine, Error, ErrorKind, Locks, Mode, Released, Result};
use leasehold_testkit::twist::{Inner, Twist, Twisted};
use retry::{Retry, Retrying};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Fails the next so many verbs; each was carried out or not, as told.
#[derive(Clone, Debug)]
struct Failing(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    left: AtomicU32,
    asked: AtomicU32,
    kind: ErrorKind,
    outcome: Effect,
}

impl Failing {
    fn new(left: u32, kind: ErrorKind, outcome: Effect) -> Self {
        let (left, asked) = (AtomicU32::new(left), AtomicU32::new(0));
        Self(Arc::new(Plan { left, asked, kind, outcome }))
    }

    fn asked(&self) -> u32 {
        self.0.asked.load(Ordering::SeqCst)
    }

    fn error(&self) -> Error {
        let error = Error::new(self.0.kind, "on purpose");
        if self.0.outcome == Effect::Unknown { error.unknown() } else { error }
    }

    fn pass<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> BoxFuture<Result<T>>,
    ) -> BoxFuture<Result<T>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let less = |left: u32| left.checked_sub(1);
        if self.0.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return call();
        }
        let (error, lost) = (self.error(), self.0.outcome == Effect::Unknown);
        let carried_out = lost.then(call);
        Box::pin(async move {
            if let Some(done) = carried_out {
                let _ = done.await;
            }
            Err(error)
        })
    }
}

impl Twist for Failing {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.pass(|| inner.acquire(claim))
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        self.pass(|| inner.release(ticket, ending))
    }
}

/// An engine that fails, the layer above it, and the good engine below.
fn layered(failing: &Failing, policy: Retry) -> (Arc<dyn Engine>, Locks) {
    let below = Locks::memory();
    let twisted = Twisted::around(below.engine(), failing.clone());
    (Arc::new(Retrying::new(twisted, Clock::System, policy)), below)
}

fn claim(locks: &Locks) -> Claim {
    let ticket = Ticket::new(locks.name("n").unwrap(), Mode::Exclusive);
    Claim::new(ticket, Owner::new("test"), Duration::from_secs(3600))
}

#[tokio::test]
async fn an_engine_that_comes_back_in_time_is_asked_until_it_does() {
    let failing = Failing::new(3, ErrorKind::Unavailable, Effect::NotApplied);
    let (engine, below) = layered(&failing, Retry::times(3, MS));
    let verdict = engine.acquire(claim(&below)).await.unwrap();
    assert!(matches!(verdict, Verdict::Granted(_)), "{verdict:?}");
    assert_eq!(failing.asked(), 4);
}

static TOLD: AtomicU32 = AtomicU32::new(0);

#[tokio::test]
async fn who_fails_again_and_again_is_heard_of_ever_less_often() {
    let failing = Failing::new(20, ErrorKind::Unavailable, Effect::NotApplied);
    let below = Locks::memory();
    let twisted = Twisted::around(below.engine(), failing.clone());
    let layer = Retrying::new(twisted, Clock::System, Retry::forever(MS));
    let layer = layer.telling(|_, tries, error| {
        assert!(error.to_string().contains("on purpose"), "{error}");
        TOLD.fetch_add(tries, Ordering::SeqCst);
    });
    layer.acquire(claim(&below)).await.unwrap();
    assert_eq!(TOLD.load(Ordering::SeqCst), 4 + 8 + 16);
}

#[tokio::test]
async fn every_policy_gives_up_when_it_says() {
    for (policy, asked) in [
        (Retry::none(), 1),
        (Retry::once(MS), 2),
        (Retry::times(4, MS), 5),
        (Retry::exponential(MS, 3, 5 * MS), 4),
        (Retry::until_elapsed(Duration::ZERO, MS), 1),
    ] {
        let failing = Failing::new(u32::MAX, ErrorKind::Unavailable, Effect::NotApplied);
        let (engine, below) = layered(&failing, policy);
        let error = engine.acquire(claim(&below)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(failing.asked(), asked, "{policy:?}");
        assert!(!below.status("n").await.unwrap().is_busy());
    }
}

#[tokio::test]
async fn a_grant_whose_replies_are_lost_is_granted_to_the_same_ticket_once() {
    let failing = Failing::new(2, ErrorKind::Unavailable, Effect::Unknown);
    let (engine, below) = layered(&failing, Retry::times(5, MS));
    let claim = claim(&below);
    let Verdict::Granted(grant) = engine.acquire(claim.clone()).await.unwrap() else {
        panic!("it waits for its own ghost");
    };
    let status = below.status("n").await.unwrap();
    assert_eq!((status.holders.len(), status.waiters.len()), (1, 0), "{status:?}");
    assert_eq!(status.holders[0].fence, Some(grant.fence));
    let released = engine.release(claim.ticket, Ending::new()).await.unwrap();
    assert_eq!(released, Released::Released);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_tried_again_and_touches_no_successor() {
    let failing = Failing::new(0, ErrorKind::Unavailable, Effect::Unknown);
    let (engine, below) = layered(&failing, Retry::times(5, 20 * MS));
    let claim = claim(&below);
    engine.acquire(claim.clone()).await.unwrap();
    failing.0.left.store(1, Ordering::SeqCst);
    let release = tokio::spawn(engine.release(claim.ticket, Ending::new()));
    let successor = below.mutex("n").lock().await.unwrap();
    assert_eq!(release.await.unwrap().unwrap(), Released::AlreadyLost);
    successor.check().unwrap();
    assert!(below.mutex("n").try_lock().await.unwrap().is_none(), "the successor lost it");
}

/// A release whose first reply is lost, and what its retry says.
async fn retried(ending: Ending) -> Released {
    let failing = Failing::new(0, ErrorKind::Unavailable, Effect::Unknown);
    let (engine, below) = layered(&failing, Retry::times(5, MS));
    let claim = claim(&below);
    engine.acquire(claim.clone()).await.unwrap();
    failing.0.left.store(1, Ordering::SeqCst);
    let released = engine.release(claim.ticket, ending).await.unwrap();
    assert_eq!(failing.asked(), 3, "it was tried twice");
    assert!(!below.status("n").await.unwrap().is_busy());
    released
}

#[tokio::test]
async fn a_retry_tells_what_the_release_before_it_did() {
    let ours = |moment| {
        let mut ending = Ending::new();
        ending.sure_until = Some(moment);
        ending
    };
    let now = Clock::System.now();
    assert_eq!(retried(ours(now.after(HOUR))).await, Released::Released);
    assert_eq!(retried(ours(now)).await, Released::AlreadyLost, "it may have run out meanwhile");
    // Who stored a record can look at it, and know for certain.
    let name = Locks::memory().name("n").unwrap();
    let mut storing = Ending::storing(Store::put(name, b"done".to_vec()));
    storing.sure_until = Some(now.after(HOUR));
    assert_eq!(retried(storing).await, Released::AlreadyLost);
}

#[tokio::test]
async fn work_that_ends_on_a_slow_engine_is_not_told_lost() {
    let failing = Failing::new(0, ErrorKind::Unavailable, Effect::Unknown);
    let (engine, _below) = layered(&failing, Retry::times(5, MS));
    let locks = Locks::on(engine, Clock::System).unwrap();
    let done = locks.mutex("n").run(async |_| failing.0.left.store(1, Ordering::SeqCst)).await;
    assert_eq!(failing.0.left.load(Ordering::SeqCst), 0, "a reply was lost");
    done.unwrap();
}

#[tokio::test]
async fn what_may_have_taken_effect_stays_unknown_whatever_the_last_try_says() {
    let away = Away::default();
    let below = Locks::memory();
    let twisted = Twisted::around(below.engine(), away.clone());
    let engine = Retrying::new(twisted, Clock::System, Retry::times(1, MS));
    let error = engine.acquire(claim(&below)).await.unwrap_err();
    assert_eq!(away.0.load(Ordering::SeqCst), 2);
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(below.status("n").await.unwrap().is_busy(), "the first try was granted");
}

/// Loses the first reply, and is not there for the second request.
#[derive(Clone, Debug, Default)]
struct Away(Arc<AtomicU32>);

impl Twist for Away {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let error = Error::new(ErrorKind::Unavailable, "on purpose");
        if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            return Box::pin(std::future::ready(Err(error)));
        }
        let granted = inner.acquire(claim);
        Box::pin(async move {
            granted.await?;
            Err(error.unknown())
        })
    }
}

#[tokio::test]
async fn what_no_retry_can_mend_is_not_retried() {
    for kind in [ErrorKind::Invalid, ErrorKind::Denied, ErrorKind::Unsupported] {
        let failing = Failing::new(u32::MAX, kind, Effect::NotApplied);
        let (engine, below) = layered(&failing, Retry::forever(MS));
        assert_eq!(engine.acquire(claim(&below)).await.unwrap_err().kind(), kind);
        assert_eq!(failing.asked(), 1);
    }
}

/// The whole client above it: a lock over an engine that is away for a while.
#[tokio::test]
async fn a_lock_outlives_an_engine_that_is_away_for_a_while() {
    let failing = Failing::new(4, ErrorKind::Unavailable, Effect::Unknown);
    let (engine, below) = layered(&failing, Retry::forever(MS));
    let locks = Locks::on(engine, Clock::System).unwrap();
    let guard = locks.mutex("n").lock().await.unwrap();
    failing.0.left.store(4, Ordering::SeqCst);
    guard.release().await.unwrap();
    assert!(!below.status("n").await.unwrap().is_busy());
}
