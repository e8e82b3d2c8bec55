//! Many names at once: all or nothing, without deadlock.

use leasehold::engine::{Eviction, Target};
use leasehold::{ErrorKind, Locks, Released, Standing};
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, eventually, free, idle, runs_out};
use super::recipe::Client;
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(all_are_taken_and_given_back_together),
        check!(a_try_that_finds_one_busy_leaves_nothing),
        check!(a_wait_that_ends_leaves_nothing).of_known_leases(),
        check!(a_wait_that_is_dropped_leaves_nothing).of_a_queue(),
        check!(opposite_orders_do_not_deadlock),
        check!(all_are_lost_when_one_is).of_known_leases().of_a_queue(),
        check!(a_name_given_twice_counts_once),
        check!(one_bad_name_takes_nothing),
    ]
}

/// Nobody holds or waits for any of them.
async fn untouched(client: &Client, names: &[&str]) -> Outcome {
    for name in names {
        idle(&client.mutex(name)).await?;
    }
    Ok(())
}

async fn all_are_taken_and_given_back_together(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guards = one.all(["b", "a", "c"]).ttl(HOUR).lock().await?;
    for name in ["a", "b", "c"] {
        ensure!(two.mutex(name).try_lock().await?.is_none(), "{name} is not held");
        ensure!(guards.fence(name).is_some(), "{name} has no fence");
    }
    let order: Vec<_> = guards.iter().map(|guard| guard.name().as_str().to_owned()).collect();
    ensure!(order == ["a", "b", "c"], "{order:?}");
    ensure!(guards.release().await? == Released::Released, "one of them was lost");
    for name in ["a", "b", "c"] {
        drop(free(&two.mutex(name)).await?);
    }
    Ok(())
}

async fn a_try_that_finds_one_busy_leaves_nothing(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    for busy in ["a", "b", "c"] {
        let guard = one.mutex(busy).ttl(HOUR).lock().await?;
        let tried = two.all(["c", "b", "a"]).ttl(HOUR).try_lock().await?;
        ensure!(tried.is_none(), "{busy} has two holders");
        guard.release().await?;
        untouched(&one, &["a", "b", "c"]).await?;
    }
    Ok(())
}

async fn a_wait_that_ends_leaves_nothing(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("b").label("alice").ttl(HOUR).lock().await?;
    let three = || two.all(["a", "b", "c"]).ttl(HOUR).lock();
    let error = runs_out(|limit| three().within(limit).into_future()).await?;
    ensure!(error.is_timed_out() && error.to_string().contains("alice"), "{error:?}");
    untouched(&one, &["a", "c"]).await?;
    guard.release().await?;
    untouched(&one, &["b"]).await
}

async fn a_wait_that_is_dropped_leaves_nothing(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("b").ttl(HOUR).lock().await?;
    let waiter = tokio::spawn(two.all(["a", "b", "c"]).ttl(HOUR).lock().into_future());
    super::patience::queued(&one.mutex("b"), 1).await?;
    ensure!(one.mutex("a").try_lock().await?.is_none(), "what is below is held meanwhile");
    drop(free(&one.mutex("c")).await?);
    waiter.abort();
    guard.release().await?;
    untouched(&one, &["a", "b", "c"]).await
}

/// Every order of three names, from many tasks and clients, again and again.
async fn opposite_orders_do_not_deadlock(store: Store) -> Outcome {
    const ORDERS: [[&str; 3]; 6] = [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["b", "a", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ];
    let clients = store.open_many(3).await?;
    let tasks = ORDERS.iter().zip(clients.iter().cycle());
    let tasks: Vec<_> =
        tasks.map(|(order, client)| tokio::spawn(take_often(client.clone(), *order))).collect();
    for task in tasks {
        timeout(2 * PATIENCE, task).await???;
    }
    Ok(())
}

async fn take_often(client: Client, order: [&'static str; 3]) -> Outcome {
    for round in 0..10 {
        // Some take all of them, some two.
        let names = &order[..3 - round % 2];
        client.all(names).ttl(HOUR).lock().await?.release().await?;
    }
    Ok(())
}

async fn evict(locks: &Locks, name: &str) -> Outcome {
    let eviction = Eviction::new(locks.name(name)?, Target::All, "olga", "a test")?;
    locks.evict(eviction).await?;
    Ok(())
}

async fn all_are_lost_when_one_is(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guards = one.all(["a", "b", "c"]).ttl(HOUR).lock().await?;
    guards.check()?;
    evict(&two, "b").await?;
    let standing = timeout(PATIENCE, guards.lost()).await?;
    ensure!(matches!(standing, Standing::Lost(_)), "{standing:?}");
    let error = guards.check().err().ok_or("check says all are ours")?;
    ensure!(error.is_lost() && error.to_string().contains("\"b\""), "{error}");
    ensure!(guards.remaining().is_zero(), "{:?} remain", guards.remaining());
    ensure!(guards.release().await? == Released::AlreadyLost, "one was lost");
    eventually("the others free", || async {
        Ok(two.all(["a", "b", "c"]).try_lock().await?.is_some())
    })
    .await
}

async fn a_name_given_twice_counts_once(store: Store) -> Outcome {
    let client = store.open().await?;
    let guards = client.all(["a", "b", "a"]).ttl(HOUR).lock().within(PATIENCE).await?;
    ensure!(guards.iter().count() == 2, "{guards:?}");
    Ok(())
}

async fn one_bad_name_takes_nothing(store: Store) -> Outcome {
    let client = store.open().await?;
    let none: [&str; 0] = [];
    for names in [&["a", ""][..], &["a", "b\n"], &none] {
        let error = client.all(names).try_lock().await.err().ok_or("taken")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    }
    untouched(&client, &["a"]).await
}
