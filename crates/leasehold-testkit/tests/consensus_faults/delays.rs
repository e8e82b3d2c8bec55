//! Lock delays: the server keeps what the holder has given up.

use std::time::Duration;

use leasehold::{Clock, ErrorKind};
use leasehold_testkit::contest::{BOUND, Checked, is_guarded, until};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::{Plan, Server};

use super::store::Store;
use super::{BRIEF, LONG, NAME, open, proxy};

const DELAY: Duration = Duration::from_secs(3);

/// The holder is cut off: it gives up at its deadline, and nobody gets in before the
/// delay is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_holder_that_was_cut_off_a_name_stays_closed() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let one = open(&server.url_via(proxy.addr())).await?;
        let two = open(&server.url()).await?;
        let guard = one.mutex(NAME).ttl(BRIEF).lock_delay(DELAY).lock().await?;
        proxy.set_both(Fault::BlackHole);
        let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        let early = guard.deadline().after(DELAY).since(Clock::System.now());
        assert!(early.is_zero(), "{store:?}: {early:?} before the delay was over");
        is_guarded(&guard, &next)?;
    }
    Ok(())
}

/// The client goes, and takes its sessions along, but not what is to stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_leaves_a_closed_name_closed() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let guard = one.mutex(NAME).ttl(BRIEF).renew(false).lock_delay(DELAY).lock().await?;
        guard.lost().await;
        let opens = guard.deadline().after(DELAY);
        until("a closed name", || async { Ok(two.status(NAME).await?.closed_for.is_some()) })
            .await?;
        drop(guard);
        one.shutdown(BOUND).await?;
        let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        let early = opens.since(Clock::System.now());
        // A lease may be called lost a little before its deadline.
        assert!(early < DELAY / 100, "{store:?}: {early:?} before the delay was over");
        next.release().await?;
    }
    Ok(())
}

/// Two leases of one client with and without a delay do not share a session: the one
/// without ends with its ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_closes_no_other_name() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let proxy = proxy(&server)?;
        let one = open(&server.url_via(proxy.addr())).await?;
        let two = open(&server.url()).await?;
        let closed = one.mutex("/other").ttl(BRIEF).lock_delay(LONG).lock().await?;
        let guard = one.mutex(NAME).ttl(BRIEF).lock().await?;
        proxy.set_both(Fault::BlackHole);
        let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        is_guarded(&guard, &next)?;
        assert!(two.mutex("/other").try_lock().await?.is_none(), "{store:?}: it is closed");
        assert!(closed.check().is_err(), "{store:?}: it has run out");
    }
    Ok(())
}

/// Servers that keep no session for so long say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_that_no_session_outlasts_is_refused_with_the_limit() -> Checked {
    let server = Server::start(Plan::zookeeper().args(["maxSessionTimeout=4000"]))?;
    let locks = open(&server.url()).await?;
    let error = locks.mutex(NAME).ttl(BRIEF).lock_delay(LONG).lock().await.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("4s"), "{error}");
    let short = locks.mutex(NAME).ttl(BRIEF).lock_delay(BRIEF).lock().await?;
    short.release().await?;
    Ok(())
}
