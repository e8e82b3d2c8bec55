//! Replies that are lost after the servers have acted.

use leasehold::{Error, Mode};
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
