//! Keys of an etcd: who is in line, under which name, and what history knows.

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::Server;

use super::store::Store;
use super::{LONG, NAME, open, proxy, queued};

/// E5: whoever waits and is dropped takes its key along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_leaves_no_key() -> Checked {
    let server = Server::etcd()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let guard = one.mutex(NAME).ttl(LONG).lock().await?;
    for _ in 0..5 {
        let waiting = tokio::spawn(two.mutex(NAME).ttl(LONG).lock().into_future());
        queued(&one, 1).await?;
        waiting.abort();
        until("its key goes", || async { Ok(Store::Etcd.line(&server)?.len() == 1) }).await?;
    }
    Ok(guard.check()?)
}

/// E6: while a waiter is cut off, the holder leaves and history is compacted: its
/// watch cannot go on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_history_was_compacted_looks_again() -> Checked {
    let server = Server::etcd()?;
    let proxy = proxy(&server)?;
    let (one, two) = (open(&server.url()).await?, open(&server.url_via(proxy.addr())).await?);
    let guard = one.mutex(NAME).ttl(LONG).lock().await?;
    let waiting = tokio::spawn(two.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
    queued(&one, 1).await?;
    proxy.set_both(Fault::BlackHole);
    guard.release().await?;
    for round in 0..20 {
        server.tell(&["put", "other", &round.to_string()])?;
    }
    let answer: serde_json::Value =
        serde_json::from_str(&server.tell(&["get", "x", "-w", "json"])?)?;
    let revision = answer["header"]["revision"].as_u64().ok_or("no revision")?;
    server.tell(&["compaction", "--physical", &revision.to_string()])?;
    let old = server.tell(&["watch", "other", "--rev=2"]);
    assert!(old.is_err() || !old?.contains("PUT"), "the fault did not bite");
    assert!(!waiting.is_finished(), "it was not cut off");
    proxy.reset_all();
    proxy.heal();
    waiting.await??.release().await?;
    Ok(())
}

/// E7: they begin alike and are locks of their own, escaped and raw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_begin_alike_are_locks_of_their_own() -> Checked {
    let server = Server::etcd()?;
    for locks in [leasehold::open(server.url()).await?, open(&server.url()).await?] {
        let mut guards = Vec::new();
        for name in ["a", "ab", "a/b", "a/b/c", "a0"] {
            let guard = locks.mutex(name).ttl(LONG).try_lock().await?;
            guards.push(guard.ok_or_else(|| format!("{name} is not free"))?);
        }
        for guard in guards {
            guard.release().await?;
        }
    }
    Ok(())
}

/// E9: two claims of one client live on one lease, and are two all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_share_a_lease_exclude_each_other() -> Checked {
    let server = Server::etcd()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let waiting =
        tokio::spawn(locks.mutex(NAME).ttl(LONG).fair().lock().within(BOUND).into_future());
    queued(&locks, 1).await?;
    assert_eq!(server.tell(&["lease", "list"])?.lines().skip(1).count(), 1, "two leases");
    assert!(!waiting.is_finished(), "two holders");
    let fence = guard.fence();
    guard.release().await?;
    let next = waiting.await??;
    assert!(next.fence() > fence);
    // The end of one is not the end of the other.
    Ok(next.check()?)
}
