//! What is kept alive.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::claim::{Refresh, Renewal};
use leasehold::engine::BoxFuture;
use leasehold::{Clock, Error, ErrorKind, Guard, Loss, Standing};
use tokio::time::sleep;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{PATIENCE, as_brief_as_can_be, eventually, locked, queued};
use super::recipe::Recipe;
use super::store::Store;
use crate::twist::{Inner, Twist};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_lease_outlives_many_ttls).over(&Recipe::ALL),
        check!(a_hundred_leases_outlive_many_ttls),
        check!(a_place_in_the_queue_outlives_many_ttls)
            .of_known_leases()
            .of_a_queue()
            .over(&Recipe::ALL),
        check!(blocked_workers_lose_nothing),
        check!(no_deadline_is_later_than_a_ttl_from_now),
        check!(an_extension_by_less_takes_nothing_away).over(&Recipe::ALL),
        check!(an_extension_by_more_is_kept_and_ends).over(&Recipe::ALL),
        check!(renewals_that_fail_put_the_lease_in_jeopardy_and_then_end_it).over(&Recipe::ALL),
        check!(a_renewal_that_comes_back_in_time_saves_the_lease).over(&Recipe::ALL),
    ]
}

async fn a_lease_outlives_many_ttls(store: Store) -> Outcome {
    let (one, two) = (&store.open().await?, &store.open().await?);
    as_brief_as_can_be(one.profile(), async |ttl| {
        let guard = one.mutex("n").ttl(ttl).lock().await?;
        for _ in 0..6 {
            sleep(ttl / 2).await;
            guard.check()?;
            ensure!(two.mutex("n").try_lock().await?.is_none(), "two holders");
        }
        Ok(())
    })
    .await
}

async fn a_hundred_leases_outlive_many_ttls(store: Store) -> Outcome {
    let locks = &store.open().await?;
    as_brief_as_can_be(locks.profile(), async |ttl| {
        let mut guards = Vec::new();
        for at in 0..100 {
            guards.push(locks.mutex(format!("n/{ttl:?}/{at}")).ttl(2 * ttl).lock().await?);
        }
        sleep(4 * ttl).await;
        Ok(guards.iter().try_for_each(Guard::check)?)
    })
    .await
}

async fn a_place_in_the_queue_outlives_many_ttls(store: Store) -> Outcome {
    let (one, two) = (&store.open().await?, &store.open().await?);
    as_brief_as_can_be(one.profile(), async |ttl| {
        let guard = one.mutex("n").lock().await?;
        let mutex = two.mutex("n").ttl(ttl);
        let waiter = tokio::spawn(mutex.lock().into_future());
        queued(&mutex, 1).await?;
        sleep(3 * ttl).await;
        let lost = |what: String| Error::new(ErrorKind::Lost, what);
        let place = mutex.status().await?.waiters.pop();
        let place = place.ok_or_else(|| lost("its place is gone".into()))?;
        // Not every store knows since when.
        if place.waiting_for.is_some_and(|it| it < 3 * ttl) {
            return Err(lost(format!("it had to queue again: {place:?}")).into());
        }
        guard.release().await?;
        Ok(waiter.await??.check()?)
    })
    .await
}

async fn blocked_workers_lose_nothing(store: Store) -> Outcome {
    let two = &store.open().await?;
    as_brief_as_can_be(two.profile(), async |ttl| {
        let one = store.open().await?;
        let held = tokio::task::spawn_blocking(move || -> Outcome<Guard> {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(async {
                let guard = one.mutex("n").ttl(ttl).lock().await?;
                std::thread::sleep(3 * ttl);
                Ok(guard)
            })
        });
        let guard = held.await??;
        guard.check()?;
        ensure!(two.mutex("n").try_lock().await?.is_none(), "two holders");
        Ok(())
    })
    .await
}

async fn no_deadline_is_later_than_a_ttl_from_now(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").ttl(locks.brief()).lock().await?;
    let first = guard.deadline();
    let probe = || async {
        let (deadline, now) = (guard.deadline(), Clock::System.now());
        ensure!(
            deadline <= now.after(locks.brief()),
            "{:?} beyond",
            deadline.since(now.after(locks.brief()))
        );
        Ok(deadline > first)
    };
    eventually("a renewal", probe).await
}

async fn an_extension_by_less_takes_nothing_away(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for renewed in [false, true] {
        let guard = one.mutex("n").ttl(20 * one.brief()).renew(renewed).lock().await?;
        guard.extend(one.brief()).await?;
        sleep(2 * one.brief()).await;
        guard.check()?;
        ensure!(two.mutex("n").try_lock().await?.is_none(), "two holders");
        guard.release().await?;
    }
    Ok(())
}

async fn an_extension_by_more_is_kept_and_ends(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(2 * one.brief()).renew(false).lock().await?;
    guard.extend(4 * one.brief()).await?;
    ensure!(guard.remaining() <= 4 * one.brief(), "{:?}", guard.remaining());
    while guard.check().is_ok() {
        let next = two.mutex("n").try_lock().await?;
        ensure!(next.is_none() || guard.check().is_err(), "two holders");
        sleep(one.brief() / 10).await;
    }
    ensure!(guard.standing() == Standing::Lost(Loss::Expired), "{:?}", guard.standing());
    drop(locked(&two.mutex("n")).await?);
    Ok(())
}

async fn renewals_that_fail_put_the_lease_in_jeopardy_and_then_end_it(store: Store) -> Outcome {
    let cut = Cut::default();
    let (locks, _below) = store.open_twisted(cut.clone()).await?;
    let guard = locks.mutex("n").ttl(locks.brief()).lock().await?;
    cut.set(true);
    let in_jeopardy = || async { Ok(guard.standing() != Standing::Held) };
    eventually("jeopardy", in_jeopardy).await?;
    let standing = tokio::time::timeout(PATIENCE, guard.lost()).await?;
    ensure!(standing == Standing::Lost(Loss::Expired), "{standing:?}");
    let early = guard.deadline().since(Clock::System.now());
    ensure!(early < locks.brief() / 10, "given up {early:?} too early");
    cut.set(false);
    drop(locked(&locks.mutex("n")).await?);
    Ok(())
}

async fn a_renewal_that_comes_back_in_time_saves_the_lease(store: Store) -> Outcome {
    let cut = Cut::default();
    let (locks, _below) = store.open_twisted(cut.clone()).await?;
    let guard = locks.mutex("n").ttl(10 * locks.brief()).lock().await?;
    cut.set(true);
    eventually("jeopardy", || is(&guard, Standing::Jeopardy)).await?;
    cut.set(false);
    eventually("held again", || is(&guard, Standing::Held)).await?;
    Ok(guard.check()?)
}

/// Whether it stands like this; a lease that is lost will not come back.
fn is(guard: &Guard, standing: Standing) -> Ready<Outcome<bool>> {
    let seen = guard.check().map(|()| guard.standing() == standing);
    ready(seen.map_err(Into::into))
}

/// A line to the engine that lets no renewal through while it is cut.
#[derive(Clone, Debug, Default)]
struct Cut(Arc<AtomicBool>);

impl Cut {
    fn set(&self, cut: bool) {
        self.0.store(cut, Ordering::Release);
    }
}

impl Twist for Cut {
    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        if !self.0.load(Ordering::Acquire) {
            return inner.renew(tickets);
        }
        let lost = Error::new(ErrorKind::Unavailable, "the line is cut").unknown();
        let answers = tickets.iter().map(|_| Renewal::Unknown(lost.clone())).collect();
        Box::pin(ready(answers))
    }
}
