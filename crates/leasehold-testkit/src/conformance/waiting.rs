//! Try, wait, limits, order, hand-over.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::engine::profile::{Order, WakeUp};
use leasehold::{ErrorKind, Guard, Profile, Result};
use tokio::task::JoinHandle;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, SHORT, idle, locked, queued, runs_out};
use super::recipe::{Client, Lockable, Recipe};
use super::store::Store;
use crate::twist::Requests;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_try_answers_none_and_leaves_nothing).over(&Recipe::ALL),
        check!(a_waiter_is_woken_by_the_release).of_a_queue().over(&Recipe::ALL),
        check!(a_wait_limit_ends_the_wait_and_names_the_holder)
            .of_known_leases()
            .over(&Recipe::WHOLE),
        check!(a_wait_limit_of_zero_takes_a_free_name).over(&Recipe::ALL),
        check!(attempts_end_and_name_the_holder).of_known_leases().over(&Recipe::WHOLE),
        check!(attempts_take_a_name_that_opens).over(&Recipe::ALL),
        check!(the_client_limits_every_wait),
        check!(a_call_may_wait_longer_than_its_client).of_a_queue(),
        check!(everyone_is_served_in_the_end).over(&Recipe::ALL),
        check!(waiters_are_served_in_order_of_arrival)
            .over(&Recipe::ALL)
            .when(|p| p.order == Order::Fifo),
        check!(fair_tasks_of_one_client_are_served_in_order)
            .over(&Recipe::ALL)
            .when(|p| p.order == Order::Fifo),
        check!(a_thousand_local_waiters_are_one_at_the_engine).of_a_queue().over(&Recipe::ALL),
        check!(a_hand_over_costs_two_requests).over(&Recipe::ALL).when(hands_over),
        check!(a_release_wakes_one_waiter_not_the_herd).when(hands_over),
        check!(a_grant_that_nobody_fetches_is_taken_back).of_a_queue().over(&Recipe::ALL),
        check!(a_waiter_that_leaves_does_not_block_those_behind).of_a_queue().over(&Recipe::ALL),
        check!(clients_take_turns).over(&Recipe::ALL),
    ]
}

/// Whether the releaser itself makes the next one the holder. An engine that
/// tells how the last holder ended knows its locks well enough; the locks of
/// other software are only announced to be free, to everyone who listens.
fn hands_over(profile: &Profile) -> bool {
    profile.wake == WakeUp::Push && profile.predecessor
}

async fn a_try_answers_none_and_leaves_nothing(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").lock().await?;
    for _ in 0..5 {
        ensure!(two.mutex("n").try_lock().await?.is_none(), "two holders");
    }
    let status = two.mutex("n").status().await?;
    ensure!(status.waiters.is_empty(), "a try has left a waiter: {status:?}");
    drop(guard);
    idle(&two.mutex("n")).await
}

async fn a_waiter_is_woken_by_the_release(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let waiter = waiting(&two.mutex("n").ttl(HOUR));
    queued(&one.mutex("n"), 1).await?;
    let first = guard.fence();
    guard.release().await?;
    let second = waiter.await??;
    ensure!(second.fence() > first, "the fence did not grow");
    Ok(second.check()?)
}

async fn a_wait_limit_ends_the_wait_and_names_the_holder(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").label("alice").lock().await?;
    let error = runs_out(|limit| two.mutex("n").lock().within(limit).into_future()).await?;
    names_alice(&error, &guard)?;
    queued(&one.mutex("n"), 0).await
}

fn names_alice(error: &leasehold::Error, guard: &Guard) -> Outcome {
    ensure!(error.kind() == ErrorKind::TimedOut, "{error:?}");
    let text = error.to_string();
    ensure!(text.contains("alice"), "it does not name the holder: {text}");
    // A majority that does not agree on the fence names none.
    let right = !text.contains("(fence ") || text.contains(&guard.fence().to_string());
    ensure!(right, "another fence: {text}");
    Ok(())
}

async fn a_wait_limit_of_zero_takes_a_free_name(store: Store) -> Outcome {
    let locks = store.open().await?;
    let guard = locks.mutex("n").lock().within(Duration::from_secs(5)).await?;
    let none = locks.mutex("n").lock().within(Duration::ZERO).await;
    ensure!(none.is_err_and(|error| error.is_timed_out()), "a wait of no time must time out");
    drop(guard);
    idle(&locks.mutex("n")).await
}

async fn attempts_end_and_name_the_holder(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").label("alice").lock().await?;
    let tries = two.mutex("n").lock().attempts(3).every(Duration::from_millis(10));
    names_alice(&tries.await.err().ok_or("two holders")?, &guard)?;
    let status = one.mutex("n").status().await?;
    ensure!(status.waiters.is_empty(), "attempts do not queue: {status:?}");
    Ok(())
}

async fn attempts_take_a_name_that_opens(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let mutex = two.mutex("n");
    let tries = mutex.lock().attempts(u32::MAX).every(Duration::from_millis(5));
    let tries = tokio::spawn(tries.into_future());
    tokio::time::sleep(Duration::from_millis(30)).await;
    guard.release().await?;
    Ok(tokio::time::timeout(PATIENCE, tries).await???.check()?)
}

async fn the_client_limits_every_wait(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?.wait_limit(SHORT));
    let _guard = one.mutex("n").lock().await?;
    let error = two.mutex("n").lock().await.err().ok_or("two holders")?;
    ensure!(error.is_timed_out(), "{error:?}");
    Ok(())
}

async fn a_call_may_wait_longer_than_its_client(store: Store) -> Outcome {
    let limited = store.open().await?.wait_limit(Duration::from_millis(1));
    let guard = limited.mutex("n").ttl(HOUR).lock().within(PATIENCE).await?;
    let mutex = limited.mutex("n");
    let waiter = tokio::spawn(mutex.lock().within(PATIENCE).into_future());
    queued(&mutex, 1).await?;
    drop(guard);
    Ok(waiter.await??.check()?)
}

/// Leases for an hour: one lost wake-up, and this gets stuck.
async fn everyone_is_served_in_the_end(store: Store) -> Outcome {
    let clients = store.open_many(5).await?;
    let tasks = clients.iter().cloned().map(|locks| tokio::spawn(take_often(locks)));
    for task in tasks.collect::<Vec<_>>() {
        match tokio::time::timeout(2 * PATIENCE, task).await {
            Ok(done) => done??,
            // Who holds it and who waits says who stands still.
            Err(_) => ensure!(false, "not served: {:?}", clients[0].status("n").await?),
        }
    }
    Ok(())
}

async fn take_often(locks: Client) -> Outcome {
    for _ in 0..40 {
        drop(locks.mutex("n").ttl(HOUR).lock().await?);
    }
    Ok(())
}

async fn waiters_are_served_in_order_of_arrival(store: Store) -> Outcome {
    let clients = store.open_many(6).await?;
    served_in_order(clients.iter().map(|locks| locks.mutex("n").ttl(HOUR)).collect()).await
}

async fn fair_tasks_of_one_client_are_served_in_order(store: Store) -> Outcome {
    let locks = store.open().await?;
    served_in_order((0..6).map(|_| locks.mutex("n").ttl(HOUR).fair()).collect()).await
}

/// Lets them queue one after the other; then everyone lets go at once.
async fn served_in_order(mutexes: Vec<Lockable>) -> Outcome {
    let guard = mutexes[0].lock().await?;
    let mut waiters = Vec::new();
    for (place, mutex) in mutexes.iter().enumerate() {
        waiters.push(waiting(mutex));
        queued(mutex, place + 1).await?;
    }
    let mut last = guard.fence();
    guard.release().await?;
    for (place, waiter) in waiters.into_iter().enumerate() {
        let guard = tokio::time::timeout(PATIENCE, waiter).await???;
        ensure!(guard.fence() > last, "number {place} was not served in its turn");
        last = guard.fence();
    }
    Ok(())
}

async fn a_thousand_local_waiters_are_one_at_the_engine(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").ttl(HOUR).lock().await?;
    let mutex = two.mutex("n").ttl(HOUR);
    let waiters: Vec<_> = (0..1000).map(|_| tokio::spawn(take(mutex.clone()))).collect();
    queued(&mutex, 1).await?;
    let seen = mutex.status().await?.waiters.len();
    ensure!(seen == 1, "{seen} waiters at the engine");
    guard.release().await?;
    serve_all(waiters).await
}

/// The first to be looked at may be the last to be served, after a thousand
/// hand-overs on a busy machine.
async fn serve_all(waiters: Vec<JoinHandle<Outcome>>) -> Outcome {
    for waiter in waiters {
        tokio::time::timeout(4 * PATIENCE, waiter).await???;
    }
    Ok(())
}

async fn take(mutex: Lockable) -> Outcome {
    mutex.lock().await?.release().await?;
    Ok(())
}

/// A claim and a release each, and no renewal: all requests count.
async fn a_hand_over_costs_two_requests(store: Store) -> Outcome {
    const TASKS: u64 = 1000;
    let requests = Requests::default();
    let (locks, _below) = store.open_twisted(requests.clone()).await?;
    let mutex = locks.mutex("n").ttl(HOUR);
    let guard = mutex.lock().await?;
    let waiters: Vec<_> = (0..TASKS).map(|_| tokio::spawn(take(mutex.clone()))).collect();
    queued(&mutex, 1).await?;
    guard.release().await?;
    serve_all(waiters).await?;
    // Those of the first holder; a look that crossed a hand-over; nothing more.
    let (sent, most) = (requests.count(), 2 * TASKS + 2 + TASKS / 100);
    ensure!(sent <= most, "{sent} requests for {TASKS} hand-overs; {most} would do");
    Ok(())
}

/// Each waiter is a client of its own, so that no gate is in between.
async fn a_release_wakes_one_waiter_not_the_herd(store: Store) -> Outcome {
    const CLIENTS: u64 = 12;
    let requests = Requests::default();
    let first = store.open().await?;
    let guard = first.mutex("n").ttl(HOUR).lock().await?;
    let (mut waiters, mut below) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let (client, kept) = store.open_twisted(requests.clone()).await?;
        waiters.push(tokio::spawn(take(client.mutex("n").ttl(HOUR))));
        below.push((client, kept));
    }
    queued(&first.mutex("n"), waiters.len()).await?;
    guard.release().await?;
    serve_all(waiters).await?;
    let (sent, most) = (requests.turns(), 4 * CLIENTS);
    ensure!(sent <= most, "{sent} requests for {CLIENTS} hand-overs; {most} would do");
    Ok(())
}

/// Its ttl is renewed, so that only the library can take it back.
async fn a_grant_that_nobody_fetches_is_taken_back(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").lock().await?;
    let mutex = two.mutex("n").ttl(2 * two.brief());
    let mut idler = mutex.lock().into_future();
    let first = idler.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    ensure!(matches!(first, Poll::Pending), "two holders");
    queued(&one.mutex("n"), 1).await?;
    guard.release().await?;
    let other = locked(&one.mutex("n")).await?;
    let woken = tokio::spawn(idler);
    drop(other);
    Ok(tokio::time::timeout(PATIENCE, woken).await???.check()?)
}

async fn a_waiter_that_leaves_does_not_block_those_behind(store: Store) -> Outcome {
    let clients = store.open_many(3).await?;
    let guard = clients[0].mutex("n").ttl(HOUR).lock().await?;
    let leaver = waiting(&clients[1].mutex("n").ttl(HOUR));
    queued(&clients[0].mutex("n"), 1).await?;
    let stayer = waiting(&clients[2].mutex("n").ttl(HOUR));
    queued(&clients[0].mutex("n"), 2).await?;
    leaver.abort();
    queued(&clients[0].mutex("n"), 1).await?;
    drop(guard);
    Ok(tokio::time::timeout(PATIENCE, stayer).await???.check()?)
}

/// A client with many tasks does not keep the name from one with few.
async fn clients_take_turns(store: Store) -> Outcome {
    let (busy, lone) = (store.open().await?, store.open().await?);
    let greedy: Vec<_> = (0..8).map(|_| tokio::spawn(take_for_ever(busy.clone()))).collect();
    for _ in 0..20 {
        drop(locked(&lone.mutex("n").ttl(HOUR)).await?);
    }
    greedy.iter().for_each(JoinHandle::abort);
    Ok(())
}

async fn take_for_ever(locks: Client) -> Outcome {
    loop {
        drop(locks.mutex("n").ttl(HOUR).lock().await?);
    }
}

fn waiting(mutex: &Lockable) -> JoinHandle<Result<Guard>> {
    tokio::spawn(mutex.lock().into_future())
}
