//! What runs out, when, and what the next one hears.

use std::task::Poll;
use std::time::Duration;

use leasehold::engine::profile::Liveness;
use leasehold::engine::{Eviction, Target};
use leasehold::{Clock, ErrorKind, Guard, Loss, Predecessor, Released, Standing};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{BRIEF, HOUR, PATIENCE, SHORT, eventually, free, locked};
use super::recipe::{Client, Lockable, Recipe};
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_fixed_lease_ends_and_others_get_in).over(&Recipe::ALL),
        check!(nobody_gets_in_while_the_holder_claims_it).over(&Recipe::ALL),
        check!(the_engine_keeps_what_its_holder_claims).over(&Recipe::ALL),
        check!(a_waiter_is_woken_by_an_expiry).over(&Recipe::ALL),
        // A session tells no more than its own time at once.
        check!(an_extension_moves_the_deadline).when(|p| p.liveness != Liveness::Session),
        check!(an_extension_keeps_others_out).over(&Recipe::ALL),
        check!(max_hold_ends_a_lease_that_is_renewed).over(&Recipe::ALL),
        check!(a_lock_delay_keeps_an_expired_name_closed).over(&Recipe::ALL).when(|p| p.lock_delay),
        check!(a_lock_delay_does_not_close_a_released_name)
            .over(&Recipe::ALL)
            .when(|p| p.lock_delay),
        check!(without_lock_delay_it_is_refused).when(|p| !p.lock_delay),
        check!(hold_at_least_keeps_a_released_name_closed)
            .over(&Recipe::ALL)
            .when(|p| p.keep_closed),
        check!(hold_at_least_does_not_close_for_longer).over(&Recipe::ALL).when(|p| p.keep_closed),
        check!(without_keep_closed_hold_at_least_is_refused).when(|p| !p.keep_closed),
        check!(the_next_one_hears_how_the_last_one_ended)
            .over(&Recipe::WHOLE)
            .when(|p| p.predecessor),
        check!(a_grant_that_nobody_saw_passes_on_what_it_would_have_heard).when(|p| p.predecessor),
        check!(without_a_memory_the_last_end_is_unknown).when(|p| !p.predecessor),
    ]
}

fn fixed(locks: &Client) -> Lockable {
    locks.mutex("n").ttl(locks.short()).renew(false)
}

/// Whether its holder knows that it is one no more. A lease may be called lost
/// a little before its deadline, and given up then; never the other way round.
fn over(guard: &Guard) -> bool {
    guard.check().is_err()
}

async fn a_fixed_lease_ends_and_others_get_in(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = fixed(&one).lock().await?;
    let next = locked(&two.mutex("n")).await?;
    ensure!(guard.check().is_err_and(|error| error.is_lost()), "two holders");
    ensure!(next.fence() > guard.fence(), "the fence did not grow");
    Ok(next.check()?)
}

async fn nobody_gets_in_while_the_holder_claims_it(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for _ in 0..3 {
        let guard = fixed(&one).lock().await?;
        let asks = two.mutex("n").lock().attempts(u32::MAX).every(Duration::from_millis(1));
        let next = asks.await?;
        ensure!(over(&guard), "two holders: {:?} left to the first", guard.remaining());
        next.release().await?;
    }
    Ok(())
}

/// Judged by when the engine gives the name up, however late replies are: what
/// it has given up, the holder must not claim after that.
async fn the_engine_keeps_what_its_holder_claims(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for _ in 0..3 {
        let guard = fixed(&one).lock().await?;
        eventually("the expiry", || async {
            let kept = !two.mutex("n").status().await?.holders.is_empty();
            ensure!(
                kept || guard.check().is_err(),
                "it was given up {:?} early",
                guard.remaining()
            );
            Ok(!kept)
        })
        .await?;
    }
    Ok(())
}

async fn a_waiter_is_woken_by_an_expiry(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = fixed(&one).lock().await?;
    let next = two.mutex("n").ttl(HOUR).lock().within(PATIENCE).await?;
    ensure!(over(&guard), "two holders: {:?} left to the first", guard.remaining());
    Ok(next.check()?)
}

async fn an_extension_moves_the_deadline(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").ttl(PATIENCE).renew(false).lock().await?;
    let before = guard.deadline();
    guard.extend(2 * PATIENCE).await?;
    ensure!(guard.deadline() > before, "the deadline did not move");
    ensure!(guard.remaining() > PATIENCE, "{:?} remain", guard.remaining());
    ensure!(guard.remaining() <= 2 * PATIENCE, "{:?} remain", guard.remaining());
    Ok(())
}

async fn an_extension_keeps_others_out(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(2 * one.brief()).renew(false).lock().await?;
    let first = guard.deadline();
    guard.extend(3 * one.brief()).await?;
    let next = locked(&two.mutex("n")).await?;
    ensure!(over(&guard), "two holders: {:?} left to the first", guard.remaining());
    ensure!(guard.deadline() > first, "it was not extended");
    Ok(next.check()?)
}

async fn max_hold_ends_a_lease_that_is_renewed(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).max_hold(SHORT).lock().await?;
    let standing = tokio::time::timeout(PATIENCE, guard.lost()).await?;
    ensure!(standing == Standing::Lost(Loss::MaxHold), "{standing:?}");
    drop(locked(&two.mutex("n")).await?);
    ensure!(guard.release().await? == Released::AlreadyLost, "it was lost before");
    Ok(())
}

async fn a_lock_delay_keeps_an_expired_name_closed(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = fixed(&one).lock_delay(BRIEF).lock().await?;
    let opens = guard.deadline().after(BRIEF);
    // Nobody releases it: as if its holder had died.
    let asks = two.mutex("n").lock().attempts(u32::MAX).every(Duration::from_millis(5));
    drop(asks.await?);
    let early = opens.since(Clock::System.now());
    // The library itself ends what its holder has lost; the delay must stand.
    ensure!(early < BRIEF / 10, "it opened {early:?} before the delay was over");
    Ok(())
}

async fn a_lock_delay_does_not_close_a_released_name(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(one.brief()).lock_delay(HOUR).lock().await?;
    ensure!(guard.release().await? == Released::Released, "it was lost");
    drop(free(&two.mutex("n")).await?);
    Ok(())
}

async fn without_lock_delay_it_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    let error = locks.mutex("n").lock_delay(SHORT).lock().await.err().ok_or("granted")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    Ok(())
}

async fn without_keep_closed_hold_at_least_is_refused(store: Store) -> Outcome {
    let locks = store.open().await?;
    let error = locks.mutex("n").hold_at_least(SHORT).lock().await.err().ok_or("granted")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error:?}");
    Ok(())
}

async fn hold_at_least_keeps_a_released_name_closed(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let before = Clock::System.now();
    let guard = one.mutex("n").hold_at_least(BRIEF).lock().await?;
    guard.release().await?;
    drop(locked(&two.mutex("n")).await?);
    let waited = Clock::System.now().since(before);
    ensure!(waited >= BRIEF, "it opened after {waited:?}");
    Ok(())
}

async fn hold_at_least_does_not_close_for_longer(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").hold_at_least(SHORT).lock().await?;
    tokio::time::sleep(2 * SHORT).await;
    guard.release().await?;
    drop(free(&two.mutex("n")).await?);
    Ok(())
}

/// Who drops its future has not heard that the holder before was cut off.
async fn a_grant_that_nobody_saw_passes_on_what_it_would_have_heard(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for _ in 0..5 {
        fixed(&one).lock().await?.lost().await;
        let asked = two.mutex("n");
        let mut asking = Box::pin(asked.lock().into_future());
        let first = std::future::poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
        drop(asking);
        if first.is_ready() {
            // This engine answers at once, and so it was heard.
            continue;
        }
        let next = locked(&one.mutex("n")).await?;
        let heard = next.predecessor();
        ensure!(matches!(heard, Predecessor::Expired | Predecessor::Evicted), "{heard:?}");
        next.release().await?;
    }
    Ok(())
}

async fn the_next_one_hears_how_the_last_one_ended(store: Store) -> Outcome {
    let locks = store.open().await?;
    let [first, released, expired, evicted, dropped] = ends(&locks).await?;
    ensure!(first == Predecessor::None, "nobody was there before, yet: {first:?}");
    ensure!(expired == Predecessor::Expired, "after an expiry: {expired:?}");
    ensure!(evicted == Predecessor::Evicted, "after an eviction: {evicted:?}");
    for end in [released, dropped] {
        // A clean end need not be remembered.
        let clean = matches!(end, Predecessor::Released | Predecessor::None);
        ensure!(clean, "after a release: {end:?}");
    }
    Ok(())
}

async fn without_a_memory_the_last_end_is_unknown(store: Store) -> Outcome {
    let heard = ends(&store.open().await?).await?;
    let unknown = heard.iter().all(|end| *end == Predecessor::Unknown);
    ensure!(unknown, "the profile promises no memory, yet: {heard:?}");
    Ok(())
}

/// What the holders hear: after nobody, a release, an expiry, an eviction and
/// a drop.
async fn ends(locks: &Client) -> Outcome<[Predecessor; 5]> {
    let first = locked(&locks.mutex("n")).await?;
    let none = first.predecessor();
    first.release().await?;
    let expiring = fixed(locks).lock().await?;
    let released = expiring.predecessor();
    let evicted = locked(&locks.mutex("n")).await?;
    let expired = evicted.predecessor();
    locks.evict(Eviction::new(locks.name("n")?, Target::All, "operator", "a test")?).await?;
    let dropped = locked(&locks.mutex("n")).await?;
    let seen_eviction = dropped.predecessor();
    drop(dropped);
    let dropped = locked(&locks.mutex("n")).await?.predecessor();
    Ok([none, released, expired, seen_eviction, dropped])
}
