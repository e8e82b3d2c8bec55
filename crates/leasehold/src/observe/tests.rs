//! What an operator sees, on an engine that can be made to fail and a clock
//! that stands still. Each test has a scheme of its own to tell its events by.

#![expect(clippy::disallowed_methods, reason = "these tasks are the user's")]

mod listener;
mod probe;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use listener::{Listener, listen};
use probe::Probe;
use recorder::Book;
use tracing::Instrument as _;

use crate::claim::Mode;
use crate::clock::TestClock;
use crate::engine::{Event, Loss};
use crate::{ConnectionState, Locks, Owner, Released, Standing};

const SECOND: Duration = Duration::from_secs(1);

/// Locks on a probe, with everything they show.
struct Stage {
    locks: Locks,
    probe: Arc<Probe>,
    clock: TestClock,
    book: Book,
    events: Listener,
}

impl Stage {
    fn new(scheme: &'static str) -> Self {
        let (events, book, clock) = (listen(scheme), Book::default(), TestClock::new());
        let probe = Arc::new(Probe::new(scheme, clock.clone()));
        let engine = Arc::clone(&probe);
        let locks = metrics::with_local_recorder(&book, || Locks::on(engine, clock.clone()));
        Self { locks: locks.unwrap(), probe, clock, book, events }
    }

    /// Waits until as many events of this text were heard.
    async fn heard(&self, text: &str, times: usize) -> Vec<String> {
        loop {
            let heard = self.events.lines(text);
            if heard.len() >= times {
                return heard;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Stage {
    /// Whatever a test does: no name in a label, no lease id anywhere.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let (book, events) = (format!("{:?}", self.book), self.events.all().join("\n"));
        assert!(!book.contains("order/42"), "{book}");
        for id in self.probe.lease_ids() {
            for secret in [format!("{id:x}"), id.to_string()] {
                assert!(!book.contains(&secret) && !events.contains(&secret), "{events}");
            }
        }
        assert!(!self.probe.lease_ids().is_empty() || events.is_empty());
    }
}

#[tokio::test]
async fn a_lease_is_seen_from_the_grant_to_its_release() {
    let stage = Stage::new("seen");
    let guard = stage.locks.mutex("order/42").lock().await.unwrap();
    assert_eq!(stage.book.gauge("leasehold_held"), 1.0);
    stage.clock.advance(3 * SECOND);
    let fence = guard.fence();
    assert_eq!(guard.release().await.unwrap(), Released::Released);

    let book = &stage.book;
    assert_eq!(book.count("leasehold_grants_total"), 1);
    assert_eq!(book.values("leasehold_wait_seconds"), [0.0]);
    assert_eq!(book.values("leasehold_hold_seconds"), [3.0]);
    assert_eq!(book.values("leasehold_hold_ttl_ratio"), [0.1]);
    assert!(book.values("leasehold_renew_lag_seconds").is_empty());
    assert_eq!(book.gauge("leasehold_held"), 0.0);
    for none in ["timeouts", "losses", "renewals_failed"] {
        assert_eq!(book.count(&format!("leasehold_{none}_total")), 0, "{none}");
    }
    let lease = format!("engine=seen name=order/42 mode=exclusive fence={fence}");
    assert_eq!(
        stage.events.all(),
        [
            "DEBUG span acquire engine=seen name=order/42 mode=exclusive".to_owned(),
            format!("record fence={fence}"),
            "record waited=0.0".to_owned(),
            "record contended=false".to_owned(),
            format!("DEBUG granted {lease} waited=0.0 contended=false within acquire"),
            format!("DEBUG released {lease} held=3.0"),
        ]
    );
}

#[tokio::test]
async fn the_span_of_an_acquire_is_a_child_of_the_callers() {
    let stage = Stage::new("child");
    let checkout = tracing::debug_span!(target: "leasehold", "checkout", engine = "child");
    let order = stage.locks.mutex("order/42");
    let guard = order.lock().await.unwrap();
    let waiter = tokio::spawn(order.lock().into_future().instrument(checkout));
    while order.status().await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(guard);
    drop(waiter.await.unwrap().unwrap());
    let spans = stage.events.all();
    let child = "DEBUG span acquire engine=child name=order/42 mode=exclusive within checkout";
    assert!(spans.iter().any(|line| line == child), "{spans:#?}");
}

#[tokio::test]
async fn labels_are_engine_mode_and_reason_and_all_is_described() {
    let stage = Stage::new("labels");
    drop(stage.locks.semaphore("order/42", 7).acquire(2).await.unwrap());
    let labels = stage.book.labels("leasehold_grants_total");
    assert_eq!(labels[3], [("engine", "labels"), ("mode", "permits")].map(owned));
    assert_eq!(stage.book.labels("leasehold_losses_total").len(), 4 * 5);
    let keys = ["engine", "mode", "why"].map(str::to_owned);
    assert!(stage.book.label_keys().iter().all(|key| keys.contains(key)));
    assert_eq!(stage.book.described().len(), 10);
    assert_eq!(stage.book.described(), stage.book.registered());
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[tokio::test]
async fn a_wait_is_measured_and_so_is_one_in_vain() {
    let stage = Stage::new("waits");
    let order = stage.locks.mutex("order/42");
    let guard = order.lock().await.unwrap();
    let patient = tokio::spawn(order.lock().into_future());
    while order.status().await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let hasty = tokio::spawn(order.clone().fair().lock().within(2 * SECOND).into_future());
    while order.status().await.unwrap().waiters.len() < 2 {
        tokio::task::yield_now().await;
    }
    stage.clock.advance(2 * SECOND);
    assert!(hasty.await.unwrap().unwrap_err().is_timed_out());
    assert!(order.try_lock().await.unwrap().is_none());
    stage.clock.advance(3 * SECOND);
    drop(guard);
    drop(patient.await.unwrap().unwrap());

    assert_eq!(stage.book.values("leasehold_wait_seconds"), [0.0, 5.0]);
    assert_eq!(stage.book.count("leasehold_timeouts_total"), 1);
    assert_eq!(stage.book.count("leasehold_grants_total"), 2);
    assert!(stage.events.lines("granted")[1].ends_with("waited=5.0 contended=true within acquire"));
    let timed_out = "DEBUG timed out engine=waits name=order/42 mode=exclusive waited=2.0";
    assert_eq!(stage.events.lines("timed out"), [format!("{timed_out} within acquire")]);
    assert_eq!(stage.book.gauge("leasehold_held"), 0.0);
}

#[tokio::test]
async fn a_loss_is_a_warning_with_its_reason() {
    let stage = Stage::new("losses");
    let guard = stage.locks.mutex("order/42").lock().await.unwrap();
    stage.clock.advance(SECOND);
    let (actor, reason) = ("ops".into(), "wrong host".into());
    stage.probe.lose_all(&Loss::Evicted { actor, reason });
    assert!(matches!(guard.lost().await, Standing::Lost(Loss::Evicted { .. })));
    let fence = guard.fence();
    drop(guard);

    let lost = stage.heard("lost", 1).await;
    let lease = format!("engine=losses name=order/42 mode=exclusive fence={fence}");
    let why = "held=1.0 why=evicted actor=ops reason=wrong host";
    assert_eq!(lost, [format!("WARN lost {lease} {why}")]);
    assert!(stage.events.lines("released").is_empty(), "it ends once");
    assert_eq!(stage.book.count_where("leasehold_losses_total", "why", "evicted"), 1);
    assert_eq!(stage.book.count("leasehold_losses_total"), 1);
    assert_eq!(stage.book.values("leasehold_hold_seconds"), [1.0]);
    assert_eq!(stage.book.gauge("leasehold_held"), 0.0);
}

#[tokio::test]
async fn a_lease_found_expired_counts_once_whoever_finds_it() {
    let stage = Stage::new("expired");
    let guard = stage.locks.mutex("order/42").renew(false).lock().await.unwrap();
    stage.clock.advance(40 * SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    stage.heard("lost", 1).await;
    assert_eq!(stage.book.count_where("leasehold_losses_total", "why", "expired"), 1);
    assert_eq!(stage.book.count("leasehold_losses_total"), 1);
    assert_eq!(stage.book.gauge("leasehold_held"), 0.0);
    assert!(stage.events.lines("released").is_empty());
}

#[tokio::test]
async fn renewals_show_their_lag_and_their_failures() {
    let stage = Stage::new("renewals");
    let guard = stage.locks.mutex("order/42").ttl(30 * SECOND).lock().await.unwrap();
    stage.clock.advance(14 * SECOND);
    stage.heard("renewed", 1).await;
    let lag = stage.book.values("leasehold_renew_lag_seconds")[0];
    // Plans are rounded down by at most a sixteenth of ten seconds.
    assert!((4.0..=4.625).contains(&lag), "{lag}");

    stage.probe.fail(true);
    stage.clock.advance(10 * SECOND);
    stage.heard("renewal failed", 1).await;
    stage.clock.advance(3 * SECOND);
    let failed = stage.heard("renewal failed", 2).await;
    assert!(failed[0].starts_with("DEBUG") && failed[0].ends_with("error=the probe fails"));
    let jeopardy = stage.events.lines("in jeopardy");
    assert!(jeopardy.len() == 1 && jeopardy[0].starts_with("WARN"), "{jeopardy:?}");
    assert_eq!(guard.standing(), Standing::Jeopardy);

    stage.probe.fail(false);
    stage.clock.advance(3 * SECOND);
    stage.heard("renewed", 2).await;
    assert_eq!(guard.standing(), Standing::Held);
    assert_eq!(stage.book.count("leasehold_renewals_failed_total"), 2);
    assert_eq!(stage.book.count("leasehold_losses_total"), 0);
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_is_counted_as_one() {
    let stage = Stage::new("converted");
    let mut guard = stage.locks.rwlock("order/42").write().await.unwrap();
    let held = |mode| stage.book.gauge_where("leasehold_held", "mode", mode);
    assert_eq!((held("write"), held("read")), (1.0, 0.0));
    guard.convert(Mode::Read).await.unwrap();
    assert_eq!((held("write"), held("read")), (0.0, 1.0));
    guard.release().await.unwrap();
    assert_eq!((held("write"), held("read")), (0.0, 0.0));
}

#[tokio::test]
async fn entering_again_is_no_grant() {
    let stage = Stage::new("again");
    let order = stage.locks.owned_by(&Owner::new("me")).mutex("order/42");
    let (outer, inner) = (order.lock().await.unwrap(), order.lock().await.unwrap());
    drop(outer);
    assert_eq!(stage.book.gauge("leasehold_held"), 1.0);
    drop(inner);
    assert_eq!(stage.book.count("leasehold_grants_total"), 1);
    assert_eq!(stage.events.lines("entered again").len(), 1);
    assert_eq!(stage.events.lines("released").len(), 1);
    assert_eq!(stage.book.gauge("leasehold_held"), 0.0);
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_lease_in_the_numbers() {
    let stage = Stage::new("dropped");
    let order = stage.locks.mutex("order/42");
    let guard = order.lock().await.unwrap();
    let waiter = tokio::spawn(order.lock().into_future());
    while order.status().await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    waiter.abort();
    drop(waiter.await);
    drop(guard);
    drop(order.lock().await.unwrap());
    assert_eq!(stage.book.gauge("leasehold_held"), 0.0);
    assert_eq!(stage.book.count("leasehold_timeouts_total"), 0, "nobody's time was up");
}

#[tokio::test]
async fn what_the_last_handle_could_not_give_back_is_said() {
    let mut stage = Stage::new("left");
    let mut guards = Vec::new();
    for n in 0..500 {
        guards.push(stage.locks.mutex(format!("order/{n}")).lock().await.unwrap());
    }
    stage.clock.advance(SECOND);
    stage.probe.keep_back();
    drop(guards);
    drop(std::mem::replace(&mut stage.locks, Locks::memory()));
    let left = "WARN left to expire engine=left leases=500 within=30.0";
    assert_eq!(stage.events.lines("left to expire"), [left]);
    assert_eq!(stage.book.count("leasehold_left_to_expire_total"), 500);
    let labels = stage.book.labels("leasehold_left_to_expire_total");
    assert_eq!(labels, [[owned(("engine", "left"))]]);
}

#[tokio::test]
async fn the_connection_comes_and_goes_for_users_and_operators() {
    let stage = Stage::new("connection");
    let guard = stage.locks.mutex("order/42").lock().await.unwrap();
    let mut events = stage.locks.events();
    assert_eq!(events.next().await, Some(ConnectionState::Connected));
    stage.probe.publish(&Event::Suspended);
    assert_eq!(events.next().await, Some(ConnectionState::Suspended));
    assert_eq!(stage.heard("suspended", 1).await, ["WARN suspended engine=connection"]);
    stage.heard("in jeopardy", 1).await;
    let mut late = stage.locks.events();
    assert_eq!(late.next().await, Some(ConnectionState::Suspended), "how it stands now");

    stage.probe.publish(&Event::Reconnected);
    assert_eq!(events.next().await, Some(ConnectionState::Reconnected));
    stage.heard("renewed", 1).await;
    assert_eq!(guard.standing(), Standing::Held);
    let lags = stage.book.values("leasehold_renew_lag_seconds");
    assert!(lags.is_empty(), "what is done at once has no plan");

    stage.probe.publish(&Event::Disconnected);
    assert_eq!(events.next().await, Some(ConnectionState::Lost));
    assert!(matches!(guard.lost().await, Standing::Lost(Loss::Disconnected)));
    stage.heard("lost", 1).await;
    assert_eq!(stage.book.count_where("leasehold_losses_total", "why", "disconnected"), 1);
    stage.locks.shutdown(SECOND).await.unwrap();
    assert_eq!(events.next().await, None);
    assert_eq!(stage.locks.events().next().await, None, "after the end there is no news");
}
