//! P8: another server takes over, one that knows everything, or one that does
//! not.

use leasehold_testkit::check;
use leasehold_testkit::contest::Contest;
use leasehold_testkit::server::Pair;

use super::{BOUND, Checked, LONG, is_guarded, is_lost};

fn url(pair: &Pair, options: &str) -> String {
    format!("{}?retry=forever:20ms{options}", pair.url())
}

/// A commit that was answered is on the standby: whoever holds, holds on.
#[tokio::test]
async fn a_synchronous_standby_knows_every_lease() -> Checked {
    let mut pair = Pair::postgres_synchronous()?;
    let (one, two) =
        (leasehold::open(url(&pair, "")).await?, leasehold::open(url(&pair, "")).await?);
    let mut held = Vec::new();
    for name in 0..20 {
        held.push(one.mutex(name.to_string()).ttl(LONG).lock().await?);
    }
    pair.primary.kill()?;
    pair.promote()?;
    for first in held {
        let name = first.name().as_str().to_owned();
        assert!(two.mutex(&name).ttl(LONG).try_lock().await?.is_none(), "two hold {name}");
        first.check()?;
        let fence = first.fence();
        first.release().await?;
        assert!(two.mutex(&name).ttl(LONG).lock().within(BOUND).await?.fence() > fence);
    }
    Ok(())
}

/// The same amid a contest: nobody is left behind, and no two hold at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_takes_over_amid_a_contest() -> Checked {
    let mut pair = Pair::postgres_synchronous()?;
    let contest = Contest::start(&url(&pair, "")).await?;
    contest.proceeds(3).await?;
    pair.primary.kill()?;
    pair.promote()?;
    contest.proceeds(5).await?;
    check::all(&contest.end().await?)?;
    Ok(())
}

/// A copy that never heard of a lease grants the name again. No engine on such
/// a server can prevent it: the fence is larger, so the register refuses the
/// first, who is told as soon as it asks.
async fn a_late_copy(mut pair: Pair) -> Checked {
    let (one, two) =
        (leasehold::open(url(&pair, "")).await?, leasehold::open(url(&pair, "")).await?);
    one.mutex("before").ttl(LONG).lock().await?.release().await?;
    pair.catch_up()?;
    pair.sever()?;
    let first = one.mutex("n").ttl(LONG).lock().await?;
    assert!(!pair.has_caught_up()?, "the fault did not bite: the copy was told");
    pair.primary.kill()?;
    pair.promote()?;
    let second = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
    is_guarded(&first, &second)?;
    is_lost(&first).await?;
    second.check()?;
    Ok(())
}

#[tokio::test]
async fn a_late_standby_grants_again_and_the_fence_guards() -> Checked {
    a_late_copy(Pair::postgres()?).await
}

#[tokio::test]
async fn a_late_replica_grants_again_and_the_fence_guards() -> Checked {
    a_late_copy(Pair::mariadb()?).await
}

/// Advisory locks are of one server: its holders are told, and do not get them
/// back in silence. The sequence is a row, so that fences grow over it.
async fn advisory(mut pair: Pair) -> Checked {
    let url = url(&pair, "&strategy=advisory");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let first = one.mutex("n").ttl(LONG).lock().await?;
    pair.catch_up()?;
    pair.primary.kill()?;
    pair.promote()?;
    is_lost(&first).await?;
    let second = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
    assert!(second.fence() > first.fence());
    assert!(first.check().is_err(), "it came back");
    Ok(())
}

#[tokio::test]
async fn advisory_locks_do_not_move_to_a_standby() -> Checked {
    advisory(Pair::postgres()?).await
}

#[tokio::test]
async fn advisory_locks_do_not_move_to_a_replica() -> Checked {
    advisory(Pair::mariadb()?).await
}
