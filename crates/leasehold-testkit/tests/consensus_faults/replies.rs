//! Replies that are lost after the servers have acted.

use std::sync::Arc;

use leasehold::claim::{Claim, Ending, Owner, Store as Write, Ticket, Verdict};
use leasehold::once::{Fingerprint, OnBusy, OnceError};
use leasehold::{Effect, Engine, Error, Mode, Name, Released};
use leasehold_testkit::check;
use leasehold_testkit::contest::{BOUND, Checked, Contest, until};
use leasehold_testkit::proxy::{Fault, FaultProxy, Way};

use super::store::Store;
use super::{BRIEF, LONG, NAME, PATIENT, open, proxy};

/// Swallows replies until one is lost.
fn lose_a_reply(proxy: &FaultProxy) {
    let lost = proxy.counts().replies.lost;
    proxy.set(Way::Replies, Fault::BlackHole);
    proxy.wait_for(BOUND, |counts| counts.replies.lost > lost);
}

/// Z2: the node is there, its maker does not know. It finds it again, and there
/// is no second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_was_lost_is_granted_once() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let (one, two) = (open(&server.url_via(proxy.addr())).await?, open(&server.url()).await?);
        drop(one.mutex(NAME).ttl(LONG).lock().await?);
        let locking = tokio::spawn(one.mutex(NAME).ttl(LONG).lock().within(BOUND).into_future());
        lose_a_reply(&proxy);
        proxy.reset_all();
        proxy.heal();
        let guard = locking.await??;
        assert_eq!(store.line(&server)?.len(), 1, "{store:?}: an orphan");
        assert!(two.mutex(NAME).try_lock().await?.is_none(), "two holders");
        guard.release().await?;
        assert_eq!(store.line(&server)?.len(), 0);
    }
    Ok(())
}

/// Z2: nobody wants the lock any more when the reply is lost. What was made goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_was_lost_and_that_was_given_up_leaves_nothing() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let (one, two) = (open(&server.url_via(proxy.addr())).await?, open(&server.url()).await?);
        drop(one.mutex(NAME).ttl(LONG).lock().await?);
        for _ in 0..5 {
            let locking = tokio::spawn(one.mutex(NAME).ttl(LONG).lock().into_future());
            lose_a_reply(&proxy);
            locking.abort();
            let _: Option<Error> = locking.await.ok().and_then(Result::err);
            proxy.reset_all();
            proxy.heal();
            until("nothing is left", || async { Ok(store.line(&server)?.is_empty()) }).await?;
            two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?.release().await?;
        }
    }
    Ok(())
}

/// A failure takes its mark away before its lease, and what a successor has
/// written by then is not touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_hears_late_of_its_end_takes_nothing_of_its_successor() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let (one, two) = (
            leasehold::open(server.url_via(proxy.addr())).await?.once("pay").lease(LONG),
            leasehold::open(server.url()).await?.once("pay").lease(LONG),
        );
        let any = Fingerprint::none;
        let held = proxy.counts().replies.held;
        let first = one.run("k", any(), async |_| {
            proxy.set(Way::Replies, Fault::Hold);
            Err::<&str, _>("no money")
        });
        let second = two.clone().on_busy(OnBusy::Wait(BOUND));
        let second = async {
            proxy_holds(&proxy, held).await?;
            let pays = second.run("k", any(), async |_| Ok::<_, String>("paid"));
            let mut pays = Box::pin(pays);
            // In time, if the lease is free already; otherwise when it is.
            let early = tokio::time::timeout(BRIEF / 2, &mut pays).await;
            proxy.heal();
            match early {
                Ok(done) => Ok::<_, Box<dyn std::error::Error + Send + Sync>>(done?),
                Err(_) => Ok(pays.await?),
            }
        };
        let (failed, paid) = tokio::join!(first, second);
        assert!(matches!(failed, Err(OnceError::Failed("no money"))), "{failed:?}");
        assert!(!paid?.replayed, "{store:?}");
        let again = two.run("k", any(), async |_| Ok::<_, String>("paid twice")).await?;
        assert!(again.replayed && again.outcome == b"paid", "{store:?}: {again:?}");
    }
    Ok(())
}

/// The session ends while a conversion is tried again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_ends_with_its_session() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let one = open(&server.url_via(proxy.addr())).await?;
        let mut guard = one.rwlock(NAME).ttl(BRIEF).write().await?;
        proxy.set(Way::Requests, Fault::BlackHole);
        let converting = tokio::spawn(async move { guard.convert(Mode::Read).await });
        until("the servers have ended it", || async { Ok(store.line(&server)?.is_empty()) })
            .await?;
        assert!(proxy.counts().requests.lost > 0, "the fault did not bite");
        proxy.reset_all();
        proxy.heal();
        let ended = tokio::time::timeout(BOUND, converting).await??;
        assert!(ended.is_err_and(|error| error.is_lost()), "{store:?}");
    }
    Ok(())
}

/// Until a reply is kept back.
async fn proxy_holds(proxy: &FaultProxy, before: u64) -> Checked {
    until("a reply is kept back", || async { Ok(proxy.counts().replies.held > before) }).await
}

/// Again and again, under contention.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_lock_nobody_out() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let url = format!("{}?{}", server.url_via(proxy.addr()), PATIENT.replace("names=raw&", ""));
        let contest = Contest::start_with(&url, 15 * BRIEF).await?;
        let lose = || {
            lose_a_reply(&proxy);
            proxy.reset_all();
            proxy.heal();
            Ok(())
        };
        contest.shake(15, std::time::Duration::from_millis(200), lose).await?;
        contest.proceeds(2).await?;
        check::all(&contest.end().await?)?;
    }
    Ok(())
}

/// A writer becomes a reader, is watched over while it does, and the reply is lost:
/// it holds, and there is one entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_whose_reply_was_lost_leaves_one_reader() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let (one, two) = (open(&server.url_via(proxy.addr())).await?, open(&server.url()).await?);
        for lose in [false, true, true] {
            let mut guard = one.rwlock(NAME).ttl(LONG).write().within(BOUND).await?;
            // By now its entry is watched, and the one for writing goes.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            let converting = async {
                let converted = guard.convert(Mode::Read).await;
                (guard, converted)
            };
            let converting = tokio::spawn(converting);
            if lose {
                lose_a_reply(&proxy);
                proxy.reset_all();
                proxy.heal();
            }
            let (guard, converted) = converting.await?;
            converted?;
            two.rwlock(NAME).ttl(LONG).read().within(BOUND).await?.release().await?;
            guard.check()?;
            assert_eq!(store.line(&server)?.len(), 1, "{store:?}: an orphan");
            guard.release().await?;
            until("nothing is left", || async { Ok(store.line(&server)?.is_empty()) }).await?;
        }
    }
    Ok(())
}

/// Whether it is a writer or a reader by now: it holds, and what it leaves is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_in_doubt_of_a_conversion_leaves_its_record_with_the_release() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let url = format!("{}?names=raw&timeout=1s&retry=none", server.url_via(proxy.addr()));
        let locks = leasehold::open(url).await?;
        let (engine, name) = (locks.engine(), locks.name(NAME)?);
        let records = engine.records().ok_or("records")?;
        for left in [Write::put(name.clone(), b"left".to_vec()), Write::delete(name.clone())] {
            let ticket = in_doubt(&engine, &name, &proxy).await?;
            until("it is back", || async { Ok(records.load(name.clone()).await.is_ok()) }).await?;
            let released = engine.release(ticket.clone(), Ending::storing(left.clone())).await?;
            assert_eq!(released, Released::Released, "{store:?}");
            let found = records.load(name.clone()).await?.map(|record| record.value);
            assert_eq!(found, left.value, "{store:?}");
            let again = engine.release(ticket, Ending::storing(left)).await?;
            assert_eq!(again, Released::AlreadyLost, "{store:?}");
            assert!(store.line(&server)?.is_empty(), "{store:?}: an orphan");
        }
    }
    Ok(())
}

/// A writer whose conversion was not answered.
async fn in_doubt(engine: &Arc<dyn Engine>, name: &Name, proxy: &FaultProxy) -> Checked<Ticket> {
    loop {
        let ticket = Ticket::new(name.clone(), Mode::Write);
        let claim = Claim::new(ticket.clone(), Owner::new("writer"), LONG);
        assert!(matches!(engine.acquire(claim).await?, Verdict::Granted(_)));
        let converting = tokio::spawn(engine.convert(ticket.clone(), Mode::Read));
        lose_a_reply(proxy);
        proxy.reset_all();
        proxy.heal();
        if converting.await?.is_err_and(|error| error.effect() == Effect::Unknown) {
            return Ok(ticket);
        }
        // It was answered before.
        engine.release(ticket, Ending::new()).await?;
    }
}
