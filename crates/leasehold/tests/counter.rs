//! The counter.
//!
//! What it is on every engine that keeps records is checked by the conformance
//! suite of the testkit.
#![cfg(feature = "records")]

mod util;

use std::time::Duration;

use leasehold::{Effect, Error, ErrorKind, Locks};
use util::block_on;

type Outcome = Result<(), Error>;

#[tokio::test]
async fn a_counter_is_the_record_of_its_name() -> Outcome {
    let locks = Locks::memory();
    let counter = locks.counter("n");
    assert_eq!(counter.get().await?, 0);
    assert_eq!(counter.add(-7).await?, -7);
    assert_eq!(locks.record::<i64>("n").get().await?.map(|found| found.value), Some(-7));
    locks.record::<i64>("n").set(&40).await?;
    assert_eq!(counter.update(|n| n + 2).await?.value, 42);
    Ok(())
}

#[tokio::test]
async fn an_update_says_how_often_it_was_tried() -> Outcome {
    let locks = Locks::memory();
    let counter = locks.counter("n").promote_after(3);
    let mut losses = 0;
    let lose = |n| {
        if losses < 2 {
            losses += 1;
            block_on(counter.add(1)).expect("a sum");
        }
        n * 10
    };
    let updated = counter.update(lose).await?;
    assert_eq!((updated.value, updated.tries, updated.promoted), (20, 3, false));
    Ok(())
}

#[tokio::test]
async fn an_update_that_loses_too_often_goes_on_under_the_mutex() -> Outcome {
    let locks = Locks::memory();
    let counter = locks.counter("n").promote_after(3);
    let (mut tries, mut held) = (0, Vec::new());
    let lose = |n| {
        tries += 1;
        let mutex = block_on(locks.mutex("n").try_lock()).expect("an answer");
        held.push(mutex.is_none());
        if tries < 5 {
            block_on(counter.add(1)).expect("a sum");
        }
        n
    };
    let updated = counter.update(lose).await?;
    assert_eq!((updated.value, updated.tries, updated.promoted), (4, 5, true));
    assert_eq!(held, [false, false, false, true, true]);
    locks.mutex("n").lock().within(Duration::from_secs(10)).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn an_update_that_never_wins_writes_nothing() -> Outcome {
    let locks = Locks::memory();
    let counter = locks.counter("n").promote_after(1).attempts(4);
    let lose = |n: i64| {
        block_on(counter.add(1)).expect("a sum");
        n - 100
    };
    let error = counter.update(lose).await.expect_err("others are faster");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::NotApplied));
    assert!(error.to_string().contains("each of 4 times"), "{error}");
    assert_eq!(counter.get().await?, 4);
    Ok(())
}

#[tokio::test]
async fn an_update_waits_for_the_mutex_no_longer_than_it_may() -> Outcome {
    let locks = Locks::memory();
    let guard = locks.mutex("n").lock().await?;
    let counter = locks.counter("n").promote_after(0).within(Duration::from_millis(5));
    let error = counter.update(|n| n + 1).await.expect_err("somebody holds it");
    assert!(error.is_timed_out() && error.effect() == Effect::NotApplied, "{error:?}");
    assert_eq!(counter.get().await?, 0);
    guard.release().await?;
    let updated = counter.update(|n| n + 1).await?;
    assert_eq!((updated.value, updated.tries, updated.promoted), (1, 1, true));
    Ok(())
}

#[tokio::test]
async fn what_is_no_number_is_told_with_its_name() -> Outcome {
    let locks = Locks::memory();
    locks.record::<String>("word").set(&"x".into()).await?;
    let counter = locks.counter("word");
    for error in [counter.get().await.err(), counter.update(|n| n).await.err()] {
        let error = error.expect("no number");
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(error.to_string().contains("record: word"), "{error}");
    }
    assert_eq!(counter.add(1).await.expect_err("no number").kind(), ErrorKind::Invalid);
    let error = locks.counter("two\nlines").add(1).await.expect_err("no name");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn a_counter_goes_where_its_name_is_routed() -> Outcome {
    let (safe, fast) = (Locks::memory(), Locks::memory());
    let locks = safe.route("hits/", &fast);
    locks.counter("hits/1").add(3).await?;
    locks.counter("hits/1").promote_after(0).update(|n| n + 1).await?;
    assert_eq!((fast.counter("hits/1").get().await?, safe.counter("hits/1").get().await?), (4, 0));
    Ok(())
}

#[test]
fn threads_count_too() -> Outcome {
    let locks = leasehold::blocking::Locks::memory();
    let counters: Vec<_> = (0..4).map(|_| locks.counter("n").promote_after(2)).collect();
    let threads = counters.into_iter().map(|counter| {
        std::thread::spawn(move || {
            for _ in 0..50 {
                counter.add(1).expect("a sum");
                counter.update(|n| n + 1).expect("an update");
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|it| it.join().expect("a thread"));
    assert_eq!(locks.counter("n").get()?, 400);
    Ok(())
}
