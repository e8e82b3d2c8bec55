//! Barriers: closed, everybody waits; open, everybody goes on.

use leasehold::{Barrier, Error, ErrorKind};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, SHORT, eventually};
use super::store::Store;
use crate::faulty_records::BadLuck;
use crate::sweep::Sweep;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_has_barriers_or_says_why_not),
        check!(all_who_wait_go_on_when_it_is_opened),
        check!(whoever_waited_goes_on_although_it_was_closed_again),
        check!(to_close_what_is_closed_changes_nothing),
        check!(who_missed_the_opening_reads_it_again),
        check!(a_barrier_of_a_lease_opens_with_its_release),
        check!(a_barrier_of_a_lease_opens_with_its_end).of_known_leases(),
        check!(a_wait_that_is_dropped_leaves_nothing),
    ]
}

/// A client of an engine with records, or there is nothing to check.
macro_rules! client {
    ($store:expr) => {{
        let client = $store.open().await?;
        if client.engine().records().is_none() {
            return Ok(());
        }
        client
    }};
}

async fn an_engine_has_barriers_or_says_why_not(store: Store) -> Outcome {
    let locks = store.open().await?;
    let barrier = locks.barrier("b");
    if locks.engine().records().is_some() {
        ensure!(!barrier.open().await?, "it was never closed");
        return Ok(barrier.wait().await?);
    }
    let refused =
        |error: Option<Error>| error.is_some_and(|it| it.kind() == ErrorKind::Unsupported);
    ensure!(refused(barrier.close().await.err()), "closed without records");
    ensure!(refused(barrier.open().await.err()), "opened without records");
    ensure!(refused(barrier.wait().await.err()), "waited without records");
    Ok(())
}

/// So many who wait at it; each has looked before this returns.
async fn waiters(barrier: &Barrier, count: usize) -> Outcome<JoinSet<Result<(), Error>>> {
    let mut waiting = JoinSet::new();
    for _ in 0..count {
        waiting.spawn(barrier.wait().within(PATIENCE).into_future());
    }
    // Whoever waits for less time than that has looked, and so have those before.
    let looked = barrier.wait().within(SHORT).await.err().ok_or("it is open")?;
    ensure!(looked.is_timed_out(), "{looked:?}");
    Ok(waiting)
}

async fn gone_on(mut waiting: JoinSet<Result<(), Error>>) -> Outcome {
    while let Some(done) = timeout(PATIENCE, waiting.join_next()).await? {
        done??;
    }
    Ok(())
}

async fn all_who_wait_go_on_when_it_is_opened(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let (near, far) = (ours.barrier("b"), theirs.barrier("b"));
    ensure!(near.close().await?, "it was closed already");
    ensure!(far.is_closed().await?, "nobody sees it");
    let (here, there) = (waiters(&near, 5).await?, waiters(&far, 5).await?);
    ensure!(far.open().await?, "it was open already");
    gone_on(here).await?;
    gone_on(there).await?;
    ensure!(!far.open().await?, "it was opened twice");
    Ok(near.wait().within(PATIENCE).await?)
}

async fn whoever_waited_goes_on_although_it_was_closed_again(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let (near, far) = (ours.barrier("b"), theirs.barrier("b"));
    for _ in 0..5 {
        near.close().await?;
        let waiting = waiters(&far, 3).await?;
        ensure!(near.open().await? && near.close().await?, "another one does the same");
        gone_on(waiting).await?;
        ensure!(far.is_closed().await?, "it was closed again");
    }
    Ok(())
}

async fn to_close_what_is_closed_changes_nothing(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    ensure!(ours.barrier("b").close().await?, "it was closed already");
    let waiting = waiters(&theirs.barrier("b"), 1).await?;
    ensure!(!theirs.barrier("b").close().await?, "it was closed twice");
    let still = theirs.barrier("b").wait().within(SHORT).await.err();
    ensure!(still.is_some_and(|error| error.is_timed_out()), "it was opened by a close");
    ours.barrier("b").open().await?;
    gone_on(waiting).await
}

async fn who_missed_the_opening_reads_it_again(store: Store) -> Outcome {
    let theirs = client!(store);
    let luck = BadLuck::default();
    let (ours, _below) = store.open_twisted(luck.clone()).await?;
    theirs.barrier("b").close().await?;
    luck.miss(u32::MAX);
    let waiting = waiters(&ours.barrier("b"), 3).await?;
    theirs.barrier("b").open().await?;
    gone_on(waiting).await?;
    ensure!(luck.misses() > 0, "nothing was missed");
    Ok(())
}

async fn a_barrier_of_a_lease_opens_with_its_release(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let guard = ours.mutex("m").ttl(HOUR).lock().await?;
    ensure!(ours.barrier("b").while_held(&guard).close().await?, "it was closed already");
    let waiting = waiters(&theirs.barrier("b"), 2).await?;
    guard.release().await?;
    gone_on(waiting).await
}

async fn a_barrier_of_a_lease_opens_with_its_end(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let guard = ours.mutex("m").ttl(ours.brief()).renew(false).lock().await?;
    match ours.barrier("b").while_held(&guard).close().await {
        Ok(closed) => ensure!(closed, "it was closed already"),
        // A machine that stood still for so long.
        Err(error) => ensure!(error.kind() == ErrorKind::NotHeld, "{error:?}"),
    }
    theirs.barrier("b").wait().within(PATIENCE).await?;
    let late = ours.barrier("c").while_held(&guard);
    let refused = || async { Ok(late.close().await.is_err()) };
    eventually("a lease that has ended closes nothing", refused).await?;
    Ok(())
}

async fn a_wait_that_is_dropped_leaves_nothing(store: Store) -> Outcome {
    let (ours, other) = (client!(store), store.open().await?);
    other.barrier("b").close().await?;
    let swept = tokio::task::spawn_blocking(move || {
        let make = || ours.barrier("b").wait().within(SHORT / 10).into_future();
        let verify = async |_| match other.barrier("b").is_closed().await {
            Ok(true) => Ok(()),
            other => Err(format!("closed: {other:?}")),
        };
        Sweep::default().run(make, verify)
    });
    let report = swept.await??;
    ensure!(!report.cancelled.is_empty(), "nothing was cancelled");
    Ok(())
}
