//! Numbers that only grow.

use leasehold::engine::profile::{Fencing, Reach, Survives};
use leasehold::engine::{Eviction, Target};

use super::check::{Check, Outcome, check, ensure};
use super::patience::locked;
use super::recipe::{Client, Recipe};
use super::store::Store;
use crate::holder::{Hold, Holder, Orders};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(fences_grow_across_releases_and_drops)
            .over(&Recipe::ALL)
            .when(|p| p.fencing > Fencing::None),
        check!(fences_grow_across_clients).over(&Recipe::ALL).when(|p| p.fencing > Fencing::None),
        check!(fences_grow_across_an_expiry).over(&Recipe::ALL).when(|p| p.fencing > Fencing::None),
        check!(fences_grow_across_an_eviction)
            .over(&Recipe::WHOLE)
            .when(|p| p.fencing > Fencing::None),
        check!(a_lease_keeps_its_fence_when_it_is_renewed).over(&Recipe::ALL),
        check!(a_sequencer_is_mode_fence_and_name),
        check!(fences_grow_across_a_new_start)
            .over(&Recipe::ALL)
            .when(|p| p.survives > Survives::Nothing),
        check!(fences_grow_across_a_killed_process)
            .when(|p| p.survives > Survives::Nothing && p.reach > Reach::Process),
    ]
}

async fn fences_grow_across_releases_and_drops(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mut last = 0;
    for round in 0..20 {
        let guard = locked(&locks.mutex("n")).await?;
        ensure!(guard.fence() > last, "{} after {last}", guard.fence());
        last = guard.fence();
        if round % 2 == 0 {
            guard.release().await?;
        }
    }
    Ok(())
}

async fn fences_grow_across_clients(store: Store) -> Outcome {
    let clients = store.open_many(3).await?;
    let mut last = 0;
    for round in 0..12 {
        last = larger(&clients[round % 3], last).await?;
    }
    Ok(())
}

async fn fences_grow_across_an_expiry(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mut last = larger(&locks, 0).await?;
    for _ in 0..3 {
        let expiring = locks.mutex("n").ttl(locks.short()).renew(false).lock().await?;
        ensure!(expiring.fence() > last, "{} after {last}", expiring.fence());
        last = larger(&locks, expiring.fence()).await?;
    }
    Ok(())
}

async fn fences_grow_across_an_eviction(store: Store) -> Outcome {
    let locks = store.open().await?;
    let first = larger(&locks, 0).await?;
    let guard = locked(&locks.mutex("n")).await?;
    ensure!(guard.fence() > first, "{} after {first}", guard.fence());
    locks.evict(Eviction::new(locks.name("n")?, Target::All, "operator", "a test")?).await?;
    larger(&locks, guard.fence()).await?;
    Ok(())
}

async fn a_lease_keeps_its_fence_when_it_is_renewed(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").lock().await?;
    let fence = guard.fence();
    guard.extend(std::time::Duration::from_secs(60)).await?;
    ensure!(guard.fence() == fence, "{} instead of {fence}", guard.fence());
    let seen = locks.mutex("n").status().await?.holders.pop().ok_or("nobody holds it")?;
    ensure!(seen.fence == Some(fence), "others see {:?}", seen.fence);
    Ok(())
}

async fn a_sequencer_is_mode_fence_and_name(store: Store) -> Outcome {
    let guard = store.open().await?.mutex("a/b").lock().await?;
    let (shown, expected) = (guard.sequencer().to_string(), format!("{}:a/b", guard.fence()));
    ensure!(shown == format!("exclusive:{expected}"), "{shown}");
    Ok(())
}

async fn fences_grow_across_a_new_start(store: Store) -> Outcome {
    let mut last = 0;
    for _ in 0..4 {
        let locks = store.open().await?;
        last = larger(&locks, last).await?;
        locks.shutdown(super::patience::PATIENCE).await?;
    }
    Ok(())
}

async fn fences_grow_across_a_killed_process(store: Store) -> Outcome {
    let url = store.url().ok_or("no way in for another process")?.to_owned();
    let brief = store.open().await?.brief();
    let mut last = 0;
    for _ in 0..4 {
        let orders = Orders::new(&url, "n").ttl(brief).hold(Hold::UntilTold);
        let fence = tokio::task::spawn_blocking(|| -> Outcome<u64> {
            let mut holder = Holder::spawn(orders)?;
            let fence = holder.granted()?;
            holder.kill()?;
            Ok(fence)
        });
        let fence = fence.await??;
        ensure!(fence > last, "{fence} after {last}");
        last = larger(&store.open().await?, fence).await?;
    }
    Ok(())
}

async fn larger(locks: &Client, last: u64) -> Outcome<u64> {
    let guard = locked(&locks.mutex("n")).await?;
    let fence = guard.fence();
    ensure!(fence > last, "{fence} after {last}");
    guard.release().await?;
    Ok(fence)
}
