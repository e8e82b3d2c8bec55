//! The latch.
//!
//! What it is on every engine that keeps records is checked by the conformance
//! suite of the testkit.
#![cfg(feature = "records")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use leasehold::{Effect, Error, ErrorKind, Latch, Locks, TestClock};
use tokio::task::JoinSet;

type Outcome = Result<(), Error>;
type Waiting = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

const BOUND: Duration = Duration::from_secs(10);

/// A wait that has begun: it has seen which latch it waits for.
fn begun(latch: &Latch) -> Waiting {
    let mut waiting = latch.wait().into_future();
    let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it is closed");
    waiting
}

async fn passes(waiting: Waiting) -> Outcome {
    tokio::time::timeout(BOUND, waiting).await.expect("it is open")
}

#[tokio::test]
async fn a_latch_is_open_until_it_is_set_and_after_its_last_count() -> Outcome {
    let locks = Locks::memory();
    let latch = locks.latch("n");
    latch.wait().await?;
    assert_eq!(
        (latch.count().await?, latch.count_down().await?, latch.arrive("a").await?),
        (0, 0, 0)
    );
    assert!(latch.set(2).await?);
    assert!(!latch.set(5).await?, "it is closed already");
    assert_eq!((latch.count().await?, latch.count_down().await?), (2, 1));
    assert!(!latch.set(0).await?);
    assert_eq!(latch.count_down().await?, 0);
    latch.wait().await?;
    assert_eq!(latch.count_down().await?, 0, "it stays open");
    assert!(latch.set(0).await?);
    assert_eq!(
        locks.records::<serde_json::Value>("").list(usize::MAX).await?,
        [],
        "nothing is left"
    );
    assert!(latch.set(1).await?, "it can be set again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_before_the_last_count_and_all_pass_after_it() -> Outcome {
    let locks = Locks::memory();
    let (latch, counted) = (locks.latch("n"), Arc::new(AtomicBool::new(false)));
    latch.set(5).await?;
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let (wait, counted) = (begun(&latch), Arc::clone(&counted));
        waiting.spawn(async move {
            passes(wait).await.expect("an open latch");
            assert!(counted.load(Ordering::SeqCst), "it has passed before the last count");
        });
    }
    for _ in 0..4 {
        latch.count_down().await?;
        tokio::task::yield_now().await;
    }
    counted.store(true, Ordering::SeqCst);
    assert_eq!(latch.count_down().await?, 0);
    waiting.join_all().await;
    Ok(())
}

#[tokio::test]
async fn an_arrival_counts_once() -> Outcome {
    let latch = Locks::memory().latch("n");
    latch.set(3).await?;
    for _ in 0..3 {
        assert_eq!(latch.arrive("a").await?, 2);
    }
    assert_eq!((latch.arrive("b").await?, latch.arrive("a").await?), (1, 1));
    assert_eq!((latch.arrive("c").await?, latch.arrive("c").await?), (0, 0));
    let long = latch.arrive("x".repeat(256)).await.expect_err("too long");
    assert_eq!(long.kind(), ErrorKind::Invalid);
    Ok(())
}

/// Peers look whether the latch is closed, and wait for the next opening then.
#[tokio::test]
async fn whoever_waits_passes_although_the_latch_is_set_anew_at_once() -> Outcome {
    let latch = Locks::memory().latch("n");
    latch.set(1).await?;
    let first = begun(&latch);
    latch.count_down().await?;
    latch.set(1).await?;
    passes(first).await?;
    let second = begun(&latch);
    latch.count_down().await?;
    passes(second).await
}

#[tokio::test]
async fn a_wait_ends_at_its_limit() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let latch = locks.latch("n");
    latch.set(1).await?;
    let none = latch.wait().within(Duration::ZERO).await.expect_err("it is closed");
    assert!(none.is_timed_out(), "{none:?}");
    let mut waiting = JoinSet::new();
    waiting.spawn(latch.wait().within(Duration::from_secs(3)).into_future());
    let ended = loop {
        if let Some(ended) = waiting.try_join_next() {
            break ended;
        }
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    };
    let error = ended.expect("a task").expect_err("it is closed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::NotApplied));
    assert!(error.to_string().contains("waited 3s for the latch \"n\""), "{error}");
    let patient = locks.wait_limit(Duration::ZERO).latch("n");
    assert!(patient.wait().await.expect_err("the limit of the client").is_timed_out());
    Ok(())
}

#[tokio::test]
async fn a_shutdown_ends_a_wait() -> Outcome {
    let locks = Locks::memory();
    let latch = locks.latch("n");
    latch.set(1).await?;
    let waiting = begun(&latch);
    locks.shutdown(BOUND).await?;
    let error = tokio::time::timeout(BOUND, waiting).await.expect("an end");
    assert!(error.is_err(), "it is closed");
    Ok(())
}

#[tokio::test]
async fn a_record_that_is_no_latch_is_told_with_its_name() -> Outcome {
    let locks = Locks::memory();
    locks.record::<u32>("n").set(&3).await?;
    let latch = locks.latch("n");
    let waited = latch.wait().await;
    for error in [latch.count().await.err(), latch.count_down().await.err(), waited.err()] {
        let error = error.expect("no latch");
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(error.to_string().contains("record: n"), "{error}");
    }
    assert_eq!(
        locks.latch("two\nlines").set(1).await.expect_err("no name").kind(),
        ErrorKind::Invalid
    );
    Ok(())
}

#[test]
fn threads_wait_too() -> Outcome {
    let locks = leasehold::blocking::Locks::memory();
    locks.latch("n").set(3)?;
    let counting: Vec<_> = (0..3).map(|_| locks.latch("n")).collect();
    let threads = counting.into_iter().map(|latch| {
        std::thread::spawn(move || {
            latch.count_down().expect("a count");
            latch.wait().expect("an open latch");
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|it| it.join().expect("a thread"));
    assert_eq!(locks.latch("n").count()?, 0);
    Ok(())
}
