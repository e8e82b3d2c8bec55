//! Waiters whose watches break, and waiters in crowds.

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::Server;

use super::store::Store;
use super::{BRIEF, LONG, NAME, open, proxy, queued};

const CROWD: usize = 200;
/// A hand-over is a removal, a watch that fires, a look and new watches; pings
/// and renewals come on top.
const PER_RELEASE: u64 = 12;

/// Z7: the holder leaves while the waiter is cut off; its watch has nothing to
/// say about it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_a_cut_is_noticed_after_it() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let (one, two) = (open(&server.url()).await?, open(&server.url_via(proxy.addr())).await?);
        for _ in 0..3 {
            let guard = one.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
            let waiting = two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future();
            let waiting = tokio::spawn(waiting);
            queued(&one, 1).await?;
            proxy.set_both(Fault::BlackHole);
            guard.release().await?;
            assert_eq!(store.line(&server)?.len(), 1, "the fault did not bite");
            proxy.reset_all();
            proxy.heal();
            waiting.await??.release().await?;
        }
    }
    Ok(())
}

/// Z7: the leader goes while somebody waits, and the holder right after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_an_election_is_noticed_after_it() -> Checked {
    for store in Store::BOTH {
        let mut ensemble = store.ensemble()?;
        let (one, two) = (open(&ensemble.url()).await?, open(&ensemble.url()).await?);
        let guard = one.mutex(NAME).ttl(LONG).lock().await?;
        let waiting = tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
        queued(&one, 1).await?;
        let leader = ensemble.kill_leader()?;
        let fence = guard.fence();
        // Sent again until somebody takes it.
        drop(guard);
        assert!(waiting.await??.fence() > fence);
        assert_ne!(ensemble.leader()?, leader, "the fault did not bite");
    }
    Ok(())
}

/// A waiter's session outlives many ttls, and its node with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_keeps_its_node_for_as_long_as_it_waits() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(BRIEF).lock().await?;
        let waiting = tokio::spawn(two.mutex(NAME).ttl(BRIEF).lock().within(BOUND).into_future());
        queued(&one, 1).await?;
        let line = store.line(&server)?;
        tokio::time::sleep(3 * BRIEF).await;
        assert_eq!(store.line(&server)?, line, "somebody had to join again");
        guard.release().await?;
        waiting.await??.check()?;
    }
    Ok(())
}

/// What a ZooKeeper has been sent so far.
fn packets(server: &Server) -> Checked<u64> {
    let said = server.say("mntr")?;
    let count = said.lines().find_map(|line| line.strip_prefix("zk_packets_received\t"));
    Ok(count.ok_or("it does not count")?.trim().parse()?)
}

/// Z8: each release wakes one waiter, not all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_cost_a_release_no_more_than_two() -> Checked {
    let server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..CROWD {
        let lock = locks.mutex(NAME).ttl(LONG).fair().lock().within(BOUND);
        crowd.spawn(async move { lock.await?.release().await });
    }
    until("all are in line", || async { Ok(Store::Zookeeper.line(&server)?.len() == CROWD + 1) })
        .await?;
    let before = packets(&server)?;
    guard.release().await?;
    while let Some(done) = crowd.join_next().await {
        done??;
    }
    let each = (packets(&server)? - before) / u64::try_from(CROWD)?;
    assert!(each <= PER_RELEASE, "{each} requests for each release");
    Ok(())
}
