//! Elections and barriers on a clock that a test moves, and for threads.
//!
//! What every engine must do is checked by the conformance suite of the testkit.
#![cfg(feature = "records")]

use std::ops::ControlFlow;
use std::time::Duration;

use leasehold::{ErrorKind, Leadership, Locks, Observed, TestClock, blocking};

type Outcome = Result<(), leasehold::Error>;

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_candidate_does_not_lead_past_its_deadline() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let mut candidacy = locks.election("n").ttl(TTL).renew(false).stand("me")?;
    let first = candidacy.leading().await?;
    assert_eq!(candidacy.state(), Leadership::Leading { fence: first });

    clock.advance(TTL);
    let now = candidacy.state();
    assert!(now != Leadership::Leading { fence: first }, "the clock says so, not the task");
    let second = candidacy.leading().await?;
    assert!(second > first);
    candidacy.withdraw().await
}

#[tokio::test]
async fn a_candidate_that_cannot_be_told_apart_from_a_shut_down_ends() -> Outcome {
    let locks = Locks::memory();
    let mut candidacy = locks.election("n").stand("me")?;
    candidacy.leading().await?;
    locks.shutdown(TTL).await?;
    while candidacy.changed().await.is_some() {}
    assert!(candidacy.failure().is_some());
    Ok(())
}

#[tokio::test]
async fn a_bad_name_and_a_limit_are_told_at_once() -> Outcome {
    let locks = Locks::memory();
    assert_eq!(locks.election("").stand("me").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(locks.barrier("").close().await.unwrap_err().kind(), ErrorKind::Invalid);
    let reign = locks.election("n").label("node-1").campaign("me").await?;
    let late = locks.election("n").campaign("you").within(Duration::from_millis(5)).await;
    let error = late.unwrap_err();
    assert!(error.is_timed_out() && error.to_string().contains("node-1"), "{error}");
    reign.resign().await.map(drop)
}

#[tokio::test]
async fn a_value_that_is_too_large_gives_the_lead_back() -> Outcome {
    let locks = Locks::memory();
    let error = locks.election("n").campaign("x".repeat(2 << 20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    locks.election("n").campaign("x").await?.resign().await.map(drop)
}

#[tokio::test]
async fn an_observer_ends_with_its_locks() -> Outcome {
    let locks = Locks::memory();
    let mut observer = locks.election("n").observe().await?;
    assert_eq!(observer.next().await?, Some(Observed::Nobody));
    locks.shutdown(TTL).await?;
    while observer.next().await?.is_some() {}
    Ok(())
}

#[test]
fn threads_campaign_observe_and_lead() -> Outcome {
    let locks = blocking::Locks::memory();
    let election = locks.election("n");
    let mut observer = election.blocking_observe()?;
    assert_eq!(observer.blocking_next()?, Some(Observed::Nobody));
    let mut reign = election.campaign("a").blocking()?;
    reign.blocking_proclaim("b")?;
    let seen = |observed: &Option<Observed>| matches!(observed, Some(Observed::Leader(leader)) if &*leader.value == "b");
    while !seen(&observer.blocking_next()?) {}
    let mut candidacy = election.stand("c")?;
    assert_eq!(candidacy.blocking_changed()?, Some(Leadership::Following));
    reign.blocking_resign()?;
    candidacy.blocking_leading()?;
    candidacy.blocking_withdraw()?;
    let mut terms = 0;
    election.requeue().blocking_lead("d", |_| {
        terms += 1;
        if terms < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    assert!(election.blocking_lead("e", |reign| reign.fence())? > 0);
    Ok(())
}

#[test]
fn threads_wait_at_a_barrier() -> Outcome {
    let locks = blocking::Locks::memory();
    let barrier = locks.barrier("b");
    barrier.wait().blocking()?;
    assert!(barrier.blocking_close()? && barrier.blocking_is_closed()?);
    let waiting = std::thread::spawn({
        let barrier = barrier.clone();
        move || barrier.wait().blocking()
    });
    let limit = Duration::from_millis(5);
    assert!(barrier.wait().within(limit).blocking().unwrap_err().is_timed_out());
    barrier.blocking_open()?;
    waiting.join().expect("no panic")
}
