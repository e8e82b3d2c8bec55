//! What is left in line, and below it: nothing.

use std::time::Duration;

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;
use leasehold_testkit::znodes::Znodes;

use super::store::Store;
use super::{LONG, NAME, open, queued};

/// Z3: it does not get the lock in time, and takes its node along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_ends_without_a_grant_leaves_no_contender() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let held = store.line(&server)?;
        for _ in 0..5 {
            let wait = two.mutex(NAME).ttl(LONG).lock().within(Duration::from_millis(300)).await;
            assert!(wait.is_err_and(|error| error.is_timed_out()), "two holders");
            until("it is gone", || async { Ok(store.line(&server)? == held) }).await?;
        }
        guard.release().await?;
    }
    Ok(())
}

/// Z5: the reader waits for the writer before it, not for the one behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_between_two_writers_gets_in_after_the_first() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let locks = open(&server.url()).await?;
        let lock = locks.rwlock(NAME).ttl(LONG).fair();
        let first = lock.write().await?;
        let reader = tokio::spawn(lock.read().within(BOUND).into_future());
        queued(&locks, 1).await?;
        let second = tokio::spawn(lock.write().within(BOUND).into_future());
        queued(&locks, 2).await?;
        first.release().await?;
        let reader = reader.await??;
        assert!(!second.is_finished(), "a writer beside a reader");
        let fence = reader.fence();
        reader.release().await?;
        assert!(second.await??.fence() > fence);
    }
    Ok(())
}

/// Z6: waits for permits are dropped, early and late. All come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_waits_for_permits_leak_none() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let semaphore = two.semaphore(NAME, 3).ttl(LONG);
        for round in 0..20 {
            let two = one.semaphore(NAME, 3).ttl(LONG).acquire(2).within(BOUND).await?;
            let waiting = tokio::spawn(semaphore.acquire(2).into_future());
            tokio::time::sleep(Duration::from_millis(round)).await;
            waiting.abort();
            two.release().await?;
        }
        one.semaphore(NAME, 3).ttl(LONG).acquire(3).within(BOUND).await?.release().await?;
        until("an idle name", || async { Ok(!one.status(NAME).await?.is_busy()) }).await?;
    }
    Ok(())
}

/// Z10: nobody uses the lock any more, and its parents go, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_parents_go_by_themselves() -> Checked {
    let server = Server::zookeeper()?;
    let locks = leasehold::open(server.url()).await?;
    locks.mutex("order/42").lock().await?.release().await?;
    locks.semaphore("permits", 2).acquire(1).await?.release().await?;
    let mut znodes = Znodes::connect(server.addr())?;
    let locks = "/leasehold/default/locks";
    assert!(!znodes.children(locks)?.is_empty(), "no parent was made");
    let gone = || {
        let left = znodes.children(locks);
        async { Ok(left?.is_empty()) }
    };
    until("the parents go", gone).await
}

/// A fixed lease runs for as long as was agreed, whatever it is asked for later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_by_less_takes_nothing_away() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).renew(false).lock().await?;
        // It may be refused; what was agreed stands.
        let _ = guard.extend(2 * one.profile().limits.ttl_min).await;
        let wait = two.mutex(NAME).ttl(LONG).lock().within(8 * one.profile().limits.ttl_min).await;
        match wait {
            Ok(_) => assert!(guard.check().is_err(), "{store:?}: two holders"),
            Err(error) => assert!(error.is_timed_out(), "{store:?}: {error}"),
        }
    }
    Ok(())
}
