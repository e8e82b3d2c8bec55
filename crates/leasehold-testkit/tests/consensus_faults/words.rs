//! Words that are written on the entry of a holder: by an operator who asks, by one
//! who evicts, by anybody.

use leasehold::Mode;
use leasehold::engine::{Eviction, Target};
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;
use tokio::time::timeout;

use super::store::Store;
use super::{LONG, NAME, open, queued, still_waits};

fn ask(locks: &leasehold::Locks) -> Checked<Eviction> {
    Ok(Eviction::new(locks.name(NAME)?, Target::All, "ann", "a fix is waiting")?.asking())
}

/// Who is asked to let go has what it has, for all who count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_permits_that_is_asked_to_let_go_keeps_them_all() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.semaphore(NAME, 5).ttl(LONG).label("holder").acquire(5).await?;
        let others = two.semaphore(NAME, 5).ttl(LONG);
        assert!(others.try_acquire(3).await?.is_none(), "{store:?}: there are five");
        assert_eq!(two.evict(ask(&two)?).await?.leases.len(), 1);
        timeout(BOUND, guard.revocation()).await?;
        guard.check()?;
        assert!(others.try_acquire(3).await?.is_none(), "{store:?}: eight of five");
        let holders = two.status(NAME).await?.holders;
        assert_eq!(holders[0].mode, Mode::Permits { take: 5, of: 5 }, "{store:?}");
        assert_eq!(&*holders[0].label, "holder", "{store:?}: nobody knows who it is");
        let more = two.semaphore(NAME, 9).ttl(LONG).try_acquire(3).await;
        assert!(more.is_err(), "{store:?}: it counts to another number");
        guard.release().await?;
        others.acquire(5).within(BOUND).await?.release().await?;
    }
    Ok(())
}

/// A lock for reading and writing stays one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_asked_to_let_go_is_a_writer() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.rwlock(NAME).ttl(LONG).write().await?;
        let lock = two.rwlock(NAME).ttl(LONG);
        let mut waiting = tokio::spawn(lock.write().within(BOUND).into_future());
        queued(&one, 1).await?;
        two.evict(ask(&two)?).await?;
        timeout(BOUND, guard.revocation()).await?;
        assert!(one.rwlock(NAME).ttl(LONG).try_read().await?.is_none(), "{store:?}");
        still_waits(&mut waiting).await?;
        let fence = guard.fence();
        guard.release().await?;
        assert!(waiting.await??.fence() > fence);
    }
    Ok(())
}

/// A reader that is asked keeps writers out, and readers in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_asked_to_let_go_is_a_reader() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let mut guard = one.rwlock(NAME).ttl(LONG).write().await?;
        guard.convert(Mode::Read).await?;
        two.evict(ask(&two)?).await?;
        timeout(BOUND, guard.revocation()).await?;
        let lock = two.rwlock(NAME).ttl(LONG);
        lock.read().within(BOUND).await?.release().await?;
        assert!(lock.try_write().await?.is_none(), "{store:?}: a writer beside a reader");
        guard.check()?;
    }
    Ok(())
}

/// Whatever is in a value: the key says how a name is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_written_over_gives_nothing_away() -> Checked {
    let server = Server::etcd()?;
    let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
    let guard = one.semaphore(NAME, 5).ttl(LONG).acquire(5).await?;
    let others = two.semaphore(NAME, 5).ttl(LONG);
    let keys = Store::Etcd.line(&server)?;
    let [key] = keys.as_slice() else { return Err(format!("one key: {keys:?}").into()) };
    for value in ["__REVOKE__", "", "x\nmode=1/5", "who\nknows"] {
        server.tell(&["put", "--ignore-lease", key, "--", value])?;
        assert!(others.try_acquire(1).await?.is_none(), "{value:?}: six of five");
        guard.check()?;
    }
    guard.release().await?;
    others.acquire(5).within(BOUND).await?.release().await?;
    Ok(())
}

/// Who is no client of ours on an etcd cannot hear, and its value is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_of_a_stranger_is_left_alone() -> Checked {
    let server = Server::etcd()?;
    let locks = open(&server.url()).await?;
    let granted = server.tell(&["lease", "grant", "60"])?;
    let lease = granted.split_whitespace().nth(1).ok_or("no lease")?;
    let key = format!("{NAME}/{lease}");
    server.tell(&["put", &format!("--lease={lease}"), &key, "ann"])?;
    assert!(locks.mutex(NAME).ttl(LONG).try_lock().await?.is_none(), "two holders");
    assert!(locks.evict(ask(&locks)?).await?.leases.is_empty());
    let told = server.tell(&["get", "--print-value-only", &key])?;
    assert_eq!(told.trim(), "ann");
    Ok(())
}

/// An eviction says why, and counts as it did before until it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_holder_of_permits_counts_until_it_is_gone() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        for _ in 0..10 {
            let guard = one.semaphore(NAME, 5).ttl(LONG).acquire(5).within(BOUND).await?;
            let others = two.semaphore(NAME, 5).ttl(LONG);
            let eviction = Eviction::new(two.name(NAME)?, Target::All, "ann", "stuck")?;
            let evicting = tokio::spawn({
                let two = two.clone();
                async move { two.evict(eviction).await }
            });
            until(&format!("{store:?}: they are free"), || async {
                let Some(next) = others.try_acquire(1).await? else { return Ok(false) };
                assert!(guard.check().is_err(), "{store:?}: six of five");
                next.release().await?;
                Ok(true)
            })
            .await?;
            assert_eq!(evicting.await??.leases.len(), 1, "{store:?}: nobody was evicted");
        }
    }
    Ok(())
}
