//! Holders and waiters of either side that die or stand still.

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::holder::{Hold, Holder};

use crate::stage::{LONG, NOW, PATH, Stage, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_curator_lets_us_in_after_its_session() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let theirs = token(java.lock("mutex", PATH, NOW, NOW)?)?;
    java.kill()?;
    let guard = ours.mutex(PATH).ttl(LONG).lock().within(BOUND).await?;
    assert!(guard.fence() > theirs);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_of_ours_lets_curator_in_after_its_session() -> Checked {
    let mut stage = Stage::new().await?;
    let mut holder = Holder::spawn(stage.orders().hold(Hold::UntilTold))?;
    let fence = holder.granted()?;
    assert!(stage.java.lock("mutex", PATH, NOW, NOW)?.is_none(), "two holders");
    holder.kill()?;
    assert!(token(stage.java.lock("mutex", PATH, BOUND, NOW)?)? > fence);
    Ok(())
}

/// It goes on, gives back what it believes is its own, and touches nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curator_that_stood_still_does_not_take_our_lock_away() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let theirs = token(java.lock("mutex", PATH, NOW, NOW)?)?;
    java.stop()?;
    let guard = ours.mutex(PATH).ttl(LONG).lock().within(BOUND).await?;
    assert!(guard.fence() > theirs);
    java.cont()?;
    assert!(java.unlock("mutex", PATH)?.is_none(), "its node outlived its session");
    guard.check()?;
    assert_eq!(ours.status(PATH).await?.holders.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_ours_that_stood_still_sees_its_loss_and_spares_curator() -> Checked {
    let mut stage = Stage::new().await?;
    let mut holder = Holder::spawn(stage.orders().hold(Hold::UntilTold))?;
    let fence = holder.granted()?;
    holder.stop()?;
    let theirs = token(stage.java.lock("mutex", PATH, BOUND, NOW)?)?;
    assert!(theirs > fence);
    holder.cont()?;
    holder.go()?;
    holder.until("lost")?;
    holder.until("already lost")?;
    assert!(stage.java.unlock("mutex", PATH)?.is_some(), "the successor was thrown out");
    Ok(())
}

/// Its place ends with its session; those behind it do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_stands_still_blocks_nobody_for_long() -> Checked {
    let stage = Stage::new().await?;
    let guard = stage.ours.mutex(PATH).ttl(LONG).lock().await?;
    let queued =
        async |count| until("it queues", || async { Ok(stage.line(PATH)? == count) }).await;
    let (mut still, mut last) = (stage.peer()?, stage.peer()?);
    still.ask("mutex", PATH, LONG, NOW)?;
    queued(2).await?;
    let mut holder = Holder::spawn(stage.orders().hold(Hold::UntilTold))?;
    queued(3).await?;
    still.stop()?;
    holder.stop()?;
    last.ask("mutex", PATH, BOUND, NOW)?;
    queued(4).await?;
    let fence = guard.fence();
    guard.release().await?;
    assert!(token(last.granted()?)? > fence);
    holder.cont()?;
    still.kill()?;
    assert!(last.unlock("mutex", PATH)?.is_some(), "a late waiter took it");
    // It stood in a line that it is no longer part of, and joins again.
    assert!(holder.granted()? > fence);
    Ok(())
}
