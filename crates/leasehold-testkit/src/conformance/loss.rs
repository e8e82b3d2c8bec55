//! What a holder is told when it is one no more.

use std::time::Duration;

use leasehold::engine::{Eviction, Target};
use leasehold::{Clock, ErrorKind, Guard, Locks, Loss, Released, Standing};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, SHORT, free, locked};
use super::recipe::{Client, Lockable, Recipe};
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(every_signal_says_that_an_expired_lease_is_lost).over(&Recipe::ALL),
        check!(the_loss_is_signalled_no_later_than_someone_else_gets_in).over(&Recipe::ALL),
        check!(an_evicted_holder_hears_who_and_why).over(&Recipe::ALL),
        check!(an_evicted_holder_of_another_client_hears_it)
            .of_known_leases()
            .of_a_queue()
            .over(&Recipe::WHOLE),
        check!(a_late_release_does_not_touch_the_successor).of_known_leases().over(&Recipe::ALL),
        check!(a_late_drop_does_not_touch_the_successor).over(&Recipe::ALL),
        check!(what_is_lost_cannot_be_extended).over(&Recipe::ALL),
        check!(a_released_guard_is_not_lost).over(&Recipe::ALL),
        check!(run_drops_the_work_when_the_lease_is_lost).over(&Recipe::ALL),
        check!(run_gives_back_what_it_took).over(&Recipe::ALL),
    ]
}

fn fixed(locks: &Client) -> Lockable {
    locks.mutex("n").ttl(locks.short()).renew(false)
}

fn is_lost(guard: &Guard) -> Outcome {
    ensure!(matches!(guard.standing(), Standing::Lost(_)), "{:?}", guard.standing());
    ensure!(guard.check().is_err_and(|error| error.is_lost()), "check says it is ours");
    ensure!(guard.remaining().is_zero(), "{:?} remain", guard.remaining());
    Ok(())
}

async fn every_signal_says_that_an_expired_lease_is_lost(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = fixed(&locks).lock().await?;
    guard.check()?;
    ensure!(guard.remaining() <= locks.short(), "{:?} remain", guard.remaining());
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await?;
    ensure!(lost == Standing::Lost(Loss::Expired), "{lost:?}");
    let early = guard.deadline().since(Clock::System.now());
    ensure!(early < locks.short() / 10, "lost {early:?} before its deadline");
    is_lost(&guard)?;
    ensure!(guard.release().await? == Released::AlreadyLost, "it was lost");
    Ok(())
}

async fn the_loss_is_signalled_no_later_than_someone_else_gets_in(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for _ in 0..3 {
        let guard = fixed(&one).lock().await?;
        let next = locked(&two.mutex("n")).await?;
        is_lost(&guard)?;
        next.release().await?;
    }
    Ok(())
}

async fn evict(locks: &Locks, target: Target) -> Outcome {
    let eviction = Eviction::new(locks.name("n")?, target, "olga", "it hangs")?;
    let hit = locks.evict(eviction).await?.leases.len();
    ensure!(hit == 1, "{hit} leases were taken away");
    Ok(())
}

async fn an_evicted_holder_hears_who_and_why(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").ttl(HOUR).lock().await?;
    evict(&locks, Target::Fence(guard.fence())).await?;
    heard_of_olga(&guard).await?;
    drop(locked(&locks.mutex("n")).await?);
    Ok(())
}

async fn an_evicted_holder_of_another_client_hears_it(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    evict(&two, Target::All).await?;
    let next = free(&two.mutex("n")).await?;
    heard_of_olga(&guard).await?;
    ensure!(guard.release().await? == Released::AlreadyLost, "it was lost");
    Ok(next.check()?)
}

async fn heard_of_olga(guard: &Guard) -> Outcome {
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await?;
    let by_olga = Loss::Evicted { actor: "olga".into(), reason: "it hangs".into() };
    ensure!(lost == Standing::Lost(by_olga), "{lost:?}");
    is_lost(guard)?;
    let text = guard.check().err().ok_or("check says it is ours")?.to_string();
    ensure!(text.contains("olga") && text.contains("it hangs"), "{text}");
    Ok(())
}

async fn a_late_release_does_not_touch_the_successor(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = fixed(&one).lock().await?;
    let next = locked(&two.mutex("n").ttl(HOUR)).await?;
    ensure!(guard.release().await? == Released::AlreadyLost, "it was lost");
    still_held(&one, &next).await
}

async fn a_late_drop_does_not_touch_the_successor(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = fixed(&one).lock().await?;
    let next = locked(&two.mutex("n").ttl(HOUR)).await?;
    drop(guard);
    one.shutdown(PATIENCE).await?;
    still_held(&two, &next).await
}

async fn still_held(locks: &Client, guard: &Guard) -> Outcome {
    // Whatever is under way has had its time.
    tokio::time::sleep(Duration::from_millis(50)).await;
    guard.check()?;
    let holders = locks.mutex("n").status().await?.holders;
    let fences: Vec<u64> = holders.iter().filter_map(|held| held.fence).collect();
    ensure!(fences == [guard.fence()], "held by {fences:?} instead of {}", guard.fence());
    Ok(())
}

async fn what_is_lost_cannot_be_extended(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = fixed(&locks).lock().await?;
    let next = locked(&locks.mutex("n").ttl(HOUR)).await?;
    let error = guard.extend(HOUR).await.err().ok_or("it came back to life")?;
    ensure!(error.is_lost(), "{error:?}");
    still_held(&locks, &next).await
}

async fn a_released_guard_is_not_lost(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").lock().await?;
    let ended = guard.lost();
    guard.release().await?;
    let standing = tokio::time::timeout(PATIENCE, ended).await?;
    ensure!(standing == Standing::Released, "{standing:?}");
    Ok(())
}

async fn run_drops_the_work_when_the_lease_is_lost(store: Store) -> Outcome {
    let locks = store.open().await?;
    let mutex = locks.mutex("n").ttl(HOUR).max_hold(SHORT);
    let work = mutex.run(async |_| std::future::pending::<()>().await);
    let error = tokio::time::timeout(PATIENCE, work).await?.err().ok_or("work that never ends")?;
    ensure!(error.kind() == ErrorKind::Lost, "{error:?}");
    Ok(())
}

async fn run_gives_back_what_it_took(store: Store) -> Outcome {
    let locks = store.open().await?;
    let fence = locks.mutex("n").run(async |guard| guard.fence()).await?;
    let next = free(&locks.mutex("n")).await?;
    ensure!(next.fence() > fence, "the fence did not grow");
    Ok(())
}
