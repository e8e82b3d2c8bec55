//! Futures dropped at every point where they can be dropped.

use std::sync::{Mutex as Cell, PoisonError};
use std::time::Duration;

use leasehold::claim::{Claim, Ending, Refresh, Renewal, Ticket, Verdict};
use leasehold::engine::profile::Order;
use leasehold::engine::{BoxFuture, Listing, Page, Selector};
use leasehold::{Guard, Released, Result};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, free, idle, locked};
use super::recipe::{Client, Lockable, Recipe};
use super::store::Store;
use crate::sweep::{Sweep, block_on};
use crate::twist::{Inner, Twist};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(lock_of_a_free_name),
        check!(lock_of_a_busy_name).over(&Recipe::ALL),
        check!(lock_within_of_a_free_name),
        check!(lock_within_of_a_busy_name).over(&Recipe::ALL),
        check!(attempts_at_a_busy_name),
        check!(fair_lock_of_a_busy_name).when(|p| p.order == Order::Fifo),
        check!(try_lock_of_a_free_name).over(&Recipe::ALL),
        check!(try_lock_of_a_busy_name),
        check!(release_of_a_held_name),
        check!(extend_of_a_held_name),
        check!(status_of_a_free_name),
        check!(status_of_a_busy_name),
        check!(open_of_the_store),
    ]
}

async fn lock_of_a_free_name(store: Store) -> Outcome {
    sweep(store, false, |bench| bench.ours().lock().into_future()).await
}

async fn lock_of_a_busy_name(store: Store) -> Outcome {
    sweep(store, true, |bench| bench.ours().lock().into_future()).await
}

async fn lock_within_of_a_free_name(store: Store) -> Outcome {
    sweep(store, false, |bench| bench.ours().lock().within(HOUR).into_future()).await
}

async fn lock_within_of_a_busy_name(store: Store) -> Outcome {
    let limit = Duration::from_millis(60);
    sweep(store, true, move |bench| bench.ours().lock().within(limit).into_future()).await
}

async fn attempts_at_a_busy_name(store: Store) -> Outcome {
    let pause = Duration::from_millis(20);
    sweep(store, true, move |bench| bench.ours().lock().attempts(3).every(pause).into_future())
        .await
}

async fn fair_lock_of_a_busy_name(store: Store) -> Outcome {
    sweep(store, true, |bench| bench.ours().fair().lock().into_future()).await
}

async fn try_lock_of_a_free_name(store: Store) -> Outcome {
    sweep(store, false, |bench| {
        let mutex = bench.ours();
        async move { mutex.try_lock().await }
    })
    .await
}

async fn try_lock_of_a_busy_name(store: Store) -> Outcome {
    sweep(store, true, |bench| {
        let mutex = bench.ours();
        async move { mutex.try_lock().await }
    })
    .await
}

async fn release_of_a_held_name(store: Store) -> Outcome {
    sweep(store, false, |bench| {
        let guard = block_on(bench.ours().lock().into_future()).expect("free");
        guard.release()
    })
    .await
}

async fn extend_of_a_held_name(store: Store) -> Outcome {
    sweep(store, false, |bench| {
        let guard = block_on(bench.ours().lock().into_future()).expect("free");
        async move { guard.extend(2 * HOUR).await }
    })
    .await
}

async fn status_of_a_free_name(store: Store) -> Outcome {
    sweep(store, false, |bench| {
        let mutex = bench.ours();
        async move { mutex.status().await }
    })
    .await
}

async fn status_of_a_busy_name(store: Store) -> Outcome {
    sweep(store, true, |bench| {
        let mutex = bench.ours();
        async move { mutex.status().await }
    })
    .await
}

/// Opening takes no lease, but what it starts must end.
async fn open_of_the_store(store: Store) -> Outcome {
    let swept = tokio::task::spawn_blocking(move || {
        let watcher = block_on(store.open())?;
        let report = Sweep::default().run(|| store.open(), |_| untouched(&watcher));
        match report {
            // An engine without I/O is open at once.
            Err(crate::sweep::Failure::NothingToCancel) => Ok(()),
            other => other.map(drop).map_err(Into::into),
        }
    });
    swept.await?
}

async fn untouched(locks: &Client) -> Result<(), String> {
    let usable = async { Outcome::Ok(free(&locks.mutex("n")).await?.release().await?) };
    usable.await.map(drop).map_err(|error| error.to_string())
}

/// What a sweep works on: a slow client of ours, and one that is in the way.
struct Bench {
    ours: Client,
    other: Client,
    blocker: Cell<Option<Guard>>,
}

impl Bench {
    fn ours(&self) -> Lockable {
        self.ours.mutex("n").ttl(HOUR)
    }

    /// Someone holds the name, for a moment only, so that a wait has an end.
    fn block(&self) {
        let mutex = self.other.mutex("n").ttl(self.other.short()).renew(false);
        let guard = block_on(mutex.lock().into_future()).expect("free");
        self.blocker.lock().unwrap_or_else(PoisonError::into_inner).replace(guard);
    }

    /// Once the blocker has gone, so has everything. A claim that was under way
    /// when its future was dropped may still come and go.
    async fn verify(&self) -> Outcome {
        let blocker = self.blocker.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(blocker);
        locked(&self.other.mutex("n")).await?.release().await?;
        idle(&self.other.mutex("n")).await
    }
}

/// Drops the futures of `make` at every point; nothing may be left behind.
async fn sweep<F: Future>(
    store: Store,
    busy: bool,
    make: impl Fn(&Bench) -> F + Send + 'static,
) -> Outcome {
    let (ours, _below) = store.open_twisted(Slow).await?;
    let bench = Bench { ours, other: store.open().await?, blocker: Cell::default() };
    let swept = tokio::task::spawn_blocking(move || {
        let make = || {
            if busy {
                bench.block();
            }
            make(&bench)
        };
        let verify = async |_| bench.verify().await.map_err(|error| error.to_string());
        Sweep::default().run(make, verify)
    });
    let report = swept.await??;
    ensure!(!report.cancelled.is_empty(), "nothing was cancelled");
    Ok(())
}

/// Every request and every reply takes a while: there is a point to cancel at
/// before it takes effect, and one after.
#[derive(Debug)]
struct Slow;

impl Slow {
    fn delay<T: Send + 'static>(
        send: impl FnOnce() -> BoxFuture<T> + Send + 'static,
    ) -> BoxFuture<T> {
        const WAY: Duration = Duration::from_millis(2);
        Box::pin(async move {
            tokio::time::sleep(WAY).await;
            let reply = send().await;
            tokio::time::sleep(WAY).await;
            reply
        })
    }
}

impl Twist for Slow {
    fn acquire(&self, inner: &Inner, claim: Claim) -> BoxFuture<Result<Verdict>> {
        let inner = Inner::clone(inner);
        Self::delay(move || inner.acquire(claim))
    }

    fn renew(&self, inner: &Inner, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let inner = Inner::clone(inner);
        Self::delay(move || inner.renew(tickets))
    }

    fn release(
        &self,
        inner: &Inner,
        ticket: Ticket,
        ending: Ending,
    ) -> BoxFuture<Result<Released>> {
        let inner = Inner::clone(inner);
        Self::delay(move || inner.release(ticket, ending))
    }

    fn inspect(&self, inner: &Inner, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let inner = Inner::clone(inner);
        Self::delay(move || inner.inspect(selector, page))
    }
}
