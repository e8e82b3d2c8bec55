//! The mutex on the memory engine, with a clock that stands still.
//!
//! What every engine must do is checked by the conformance suite of the
//! testkit; here is what needs a test clock or a special runtime.

#![allow(clippy::disallowed_methods, reason = "this is the user's side: it spawns and blocks")]

mod util;

use std::time::Duration;

use leasehold::engine::{Eviction, Target};
use leasehold::{Locks, Predecessor, Released, Standing, TestClock};
use util::block_on;

const SECOND: Duration = Duration::from_secs(1);

type Outcome = leasehold::Result<()>;

#[tokio::test]
async fn a_held_mutex_is_busy_and_a_released_one_is_free() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");
    let guard = order.try_lock().await?.expect("free");
    assert!(order.try_lock().await?.is_none());
    assert_eq!(guard.release().await?, Released::Released);
    assert!(order.try_lock().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_waiter_is_handed_the_lease() -> Outcome {
    let locks = Locks::memory();
    let order = locks.mutex("order/42");
    let guard = order.lock().await?;
    let first = guard.fence();
    let waiter = tokio::spawn(order.lock().into_future());
    while order.status().await?.waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    drop(guard);
    let second = waiter.await.expect("no panic")?;
    assert!(second.fence() > first);
    assert_eq!(second.predecessor(), Predecessor::Released);
    Ok(())
}

#[tokio::test]
async fn a_wait_limit_says_who_held_it() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let order = locks.mutex("order/42").label("alice");
    let guard = order.lock().await?;
    let waiter = tokio::spawn(order.lock().within(3 * SECOND).into_future());
    while order.status().await?.waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    clock.advance(3 * SECOND);
    let error = waiter.await.expect("no panic").expect_err("still held");
    assert!(error.is_timed_out());
    let expected = format!("waited 3s for \"order/42\", held by alice (fence {})", guard.fence());
    assert!(error.to_string().contains(&expected), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_its_guard_lives() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let guard = locks.mutex("job").ttl(30 * SECOND).lock().await?;
    for _ in 0..20 {
        let deadline = guard.deadline();
        clock.advance(10 * SECOND);
        while guard.deadline() == deadline {
            tokio::task::yield_now().await;
        }
        guard.check()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_fixed_lease_ends_and_its_successor_knows() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let job = locks.mutex("job").ttl(30 * SECOND).renew(false);
    let guard = job.lock().await?;
    let lost = guard.lost();
    clock.advance(20 * SECOND);
    guard.extend(30 * SECOND).await?;
    clock.advance(20 * SECOND);
    guard.check()?;
    clock.advance(10 * SECOND);
    assert!(guard.check().expect_err("over").is_lost());
    assert!(matches!(lost.await, Standing::Lost(_)));
    assert_eq!(job.lock().await?.predecessor(), Predecessor::Expired);
    assert_eq!(guard.release().await?, Released::AlreadyLost);
    Ok(())
}

#[tokio::test]
async fn max_hold_ends_a_lease_that_is_renewed() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let job = locks.mutex("job").max_hold(45 * SECOND);
    let guard = job.lock().await?;
    for _ in 0..2 {
        clock.advance(15 * SECOND);
        // A busy machine may be late with the renewal, and the clock must not be.
        while guard.remaining() < 25 * SECOND {
            tokio::task::yield_now().await;
        }
    }
    clock.advance(15 * SECOND);
    assert!(matches!(guard.lost().await, Standing::Lost(leasehold::Loss::MaxHold)));
    drop(job.lock().await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_of_the_user_does_not_end_a_wait() -> Outcome {
    let locks = Locks::memory();
    let job = locks.mutex("job");
    let guard = job.lock().await?;
    let waiter = tokio::spawn(job.lock().within(3600 * SECOND).into_future());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(guard);
    waiter.await.expect("no panic").map(drop)
}

#[tokio::test]
async fn an_eviction_follows_the_route_of_its_name() -> Outcome {
    let (safe, fast) = (Locks::memory(), Locks::memory().namespace("fast")?);
    let locks = safe.route("cache/", &fast);
    let guard = locks.mutex("cache/42").lock().await?;
    let name = locks.name("cache/42")?;
    let evicted = locks.evict(Eviction::new(name, Target::All, "ops", "stuck")?).await?;
    assert_eq!(evicted.leases.len(), 1);
    assert!(matches!(guard.lost().await, Standing::Lost(leasehold::Loss::Evicted { .. })));
    Ok(())
}

#[test]
fn futures_need_no_runtime_around_them() {
    let locks = Locks::memory();
    let job = locks.mutex("job");
    let guard = block_on(job.lock().into_future()).expect("free");
    let waiter = std::thread::spawn({
        let job = job.clone();
        move || block_on(job.lock().into_future()).expect("handed over").fence()
    });
    while block_on(job.status()).expect("status").waiters.is_empty() {
        std::thread::yield_now();
    }
    let fence = guard.fence();
    drop(guard);
    assert!(waiter.join().expect("no panic") > fence);
}

#[test]
fn a_runtime_whose_workers_are_all_blocked_keeps_its_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let locks = Locks::memory();
    let ttl = Duration::from_millis(300);
    runtime.block_on(async {
        let guard = locks.mutex("job").ttl(ttl).lock().await.expect("free");
        let deadline = guard.deadline();
        std::thread::sleep(2 * ttl);
        assert!(guard.deadline() > deadline, "renewed meanwhile");
        guard.check().expect("still ours");
    });
}

/// A record says what came of the work: a service with a key for each request
/// must not keep a name for each of them as well.
#[cfg(feature = "once")]
#[tokio::test]
async fn work_that_was_done_leaves_its_record_and_no_name() -> Result<(), Box<dyn std::error::Error>>
{
    use leasehold::engine::Page;
    use leasehold::once::{Failure, Fingerprint};

    let locks = Locks::memory();
    let once = locks.once("pay");
    let done = once.run("a", Fingerprint::none(), async |_| Ok::<_, String>("paid")).await?;
    assert!(!done.replayed);
    assert!(locks.list("once/", Page::default()).await?.names.is_empty());
    assert!(once.outcome("a", Fingerprint::none()).await?.is_some());

    let fails = async |_| Err::<&str, _>("no");
    let forgotten = once.clone().on_failure(Failure::Forget);
    assert!(forgotten.run("b", Fingerprint::none(), fails).await.is_err());
    assert!(locks.list("once/", Page::default()).await?.names.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_clean_end_leaves_nothing_and_an_unclean_one_is_remembered_for_a_while() -> Outcome {
    let clock = TestClock::new();
    let locks = Locks::memory_on(clock.clone());
    let known = async || -> leasehold::Result<usize> {
        Ok(locks.list("", leasehold::engine::Page::default()).await?.names.len())
    };
    for order in 0..100 {
        locks.mutex(format!("order/{order}")).lock().await?.release().await?;
    }
    assert_eq!(known().await?, 0, "a released name leaves nothing");
    let job = locks.mutex("job").renew(false);
    let guard = job.lock().await?;
    clock.advance(30 * SECOND);
    assert!(guard.check().is_err());
    assert_eq!(job.lock().await?.predecessor(), Predecessor::Expired);
    locks.mutex("cron").hold_at_least(10 * SECOND).lock().await?.release().await?;
    assert!(locks.mutex("cron").try_lock().await?.is_none(), "it is kept closed");
    clock.advance(120 * SECOND);
    for turn in 0..4 {
        locks.mutex(format!("turn/{turn}")).lock().await?.release().await?;
    }
    assert_eq!(known().await?, 0, "nothing is remembered for ever");
    Ok(())
}

#[cfg(feature = "once")]
#[tokio::test]
async fn records_are_listed_in_order_whenever_they_were_made() -> Outcome {
    let locks = Locks::memory();
    let list = async || -> leasehold::Result<Vec<String>> {
        let all = locks.records::<u32>("r").list(1).await?;
        Ok(all.iter().map(|(name, _)| name.as_str().to_owned()).collect())
    };
    for name in ["r/c", "r/a"] {
        locks.record::<u32>(name).set(&1).await?;
    }
    assert_eq!(list().await?, ["r/a", "r/c"]);
    locks.record::<u32>("r/b").set(&1).await?;
    locks.record::<u32>("r/a").delete().await?;
    assert_eq!(list().await?, ["r/b", "r/c"]);
    Ok(())
}
