//! Holders that die, stop, or are cut off.

use std::time::Duration;

use leasehold::Predecessor;
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::proxy::{Fault, FaultProxy};

use super::{BOUND, Checked, Database, is_guarded, is_lost};

/// For leases that nobody is left to release.
const SHORT: Duration = Duration::from_secs(3);

/// Nobody tells a waiter that the holder has died: the ttl does.
#[tokio::test]
async fn a_killed_holder_blocks_a_waiter_for_no_longer_than_its_ttl() -> Checked {
    for db in Database::both()? {
        let orders = Orders::new(&db.server.url(), "n").ttl(SHORT).hold(Hold::UntilTold);
        let mut holder = Holder::spawn(orders)?;
        let first = holder.granted()?;
        let locks = leasehold::open(db.server.url()).await?;
        assert!(locks.mutex("n").try_lock().await?.is_none(), "the other does not hold it");
        let waiter = tokio::spawn(locks.mutex("n").lock().within(BOUND).into_future());
        assert!(!holder.kill()?.success());
        let next = waiter.await??;
        assert!(next.fence() > first, "{} after {first}", next.fence());
        assert_eq!(next.predecessor(), Predecessor::Expired);
    }
    Ok(())
}

/// P6: the holder is as well as ever, but nothing gets through, in either
/// direction. It knows before anybody else gets in.
#[tokio::test]
async fn a_holder_in_a_black_hole_is_told_before_another_gets_in() -> Checked {
    for db in Database::both()? {
        let addr = db.server.addr();
        let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
        let (url, direct) = (db.server.url_via(proxy.addr()), db.server.url());
        let (one, two) = (leasehold::open(&url).await?, leasehold::open(&direct).await?);
        let first = one.mutex("n").ttl(SHORT).lock().await?;
        let waiter = tokio::spawn(two.mutex("n").lock().within(BOUND).into_future());
        proxy.set_both(Fault::BlackHole);
        let second = waiter.await??;
        assert!(first.check().is_err_and(|error| error.is_lost()), "two hold it");
        // On a busy machine the renewal may come late, or have left just before; it
        // must come to nothing.
        proxy.wait_for(BOUND, |counts| counts.requests.lost + counts.replies.lost > 0);
        is_lost(&first).await?;
        is_guarded(&first, &second)?;
        proxy.heal();
        drop(first);
        second.check()?;
    }
    Ok(())
}

/// P6: a session lives as long as its process does, even if that stands still;
/// who wants a bound takes the table. Its death is noticed at once.
#[tokio::test]
async fn a_stopped_process_keeps_its_advisory_lock_and_a_killed_one_does_not() -> Checked {
    for db in Database::both()? {
        let url = db.url("strategy=advisory");
        let mut holder = Holder::spawn(Orders::new(&url, "n").ttl(SHORT).hold(Hold::UntilTold))?;
        holder.granted()?;
        holder.stop()?;
        let locks = leasehold::open(&url).await?;
        assert!(locks.mutex("n").lock().within(2 * SHORT).await.is_err_and(|it| it.is_timed_out()));
        let waiter = tokio::spawn(locks.mutex("n").lock().within(BOUND).into_future());
        holder.kill()?;
        waiter.await??.release().await?;
    }
    Ok(())
}
