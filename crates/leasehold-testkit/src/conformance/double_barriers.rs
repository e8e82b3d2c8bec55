//! Double barriers: all begin together, and all end together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::engine::{Eviction, Page, Target};
use leasehold::{DoubleBarrier, Error, ErrorKind, Inside, Locks};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, SHORT, eventually};
use super::store::Store;
use crate::faulty_records::BadLuck;
use crate::sweep::Sweep;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_has_double_barriers_or_says_why_not),
        check!(all_begin_together_and_end_together),
        check!(rounds_have_their_size_and_nobody_is_in_two),
        check!(who_gives_up_is_not_counted),
        check!(who_gives_up_in_the_last_moment_is_told_what_all_are_told),
        check!(who_is_gone_before_is_not_counted).of_known_leases(),
        check!(who_is_gone_inside_has_left).of_known_leases(),
        check!(lost_replies_make_no_second_round),
        check!(who_missed_the_decision_reads_it),
        check!(a_wait_dropped_at_any_point_is_not_counted),
    ]
}

/// A client of an engine with records, or there is nothing to check.
macro_rules! client {
    ($store:expr) => {{
        let client = $store.open().await?;
        if client.engine().records().is_none() {
            return Ok(());
        }
        client
    }};
}

fn barrier(locks: &Locks, size: usize) -> DoubleBarrier {
    locks.double_barrier("b", size).ttl(HOUR)
}

async fn an_engine_has_double_barriers_or_says_why_not(store: Store) -> Outcome {
    let locks = store.open().await?;
    let has = locks.engine().records().is_some();
    match barrier(&locks, 1).enter().within(PATIENCE).await {
        Ok(inside) => {
            ensure!(has, "alone together with nobody");
            inside.leave().within(PATIENCE).await?;
        }
        Err(error) => ensure!(!has && error.kind() == ErrorKind::Unsupported, "{error:?}"),
    }
    for size in [0, 1001] {
        let error = barrier(&locks, size).enter().await.err().ok_or("a bad size")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    }
    Ok(())
}

/// How many are where.
#[derive(Debug, Default)]
struct Counts {
    came: AtomicUsize,
    began: AtomicUsize,
    left: AtomicUsize,
}

async fn all_begin_together_and_end_together(store: Store) -> Outcome {
    const SIZE: usize = 5;
    client!(store);
    let clients = store.open_many(2).await?;
    let counts: Arc<Vec<Counts>> = Arc::new((0..3).map(|_| Counts::default()).collect());
    let mut members = JoinSet::new();
    for at in 0..SIZE {
        let (barrier, counts) = (barrier(&clients[at % 2], SIZE), Arc::clone(&counts));
        members.spawn(async move {
            let mut rounds = Vec::new();
            for count in counts.iter() {
                count.came.fetch_add(1, Ordering::AcqRel);
                let inside = barrier.enter().within(PATIENCE).await?;
                let came = count.came.load(Ordering::Acquire);
                ensure!(came == SIZE, "began when only {came} had come");
                count.began.fetch_add(1, Ordering::AcqRel);
                rounds.push(inside.round());
                count.left.fetch_add(1, Ordering::AcqRel);
                inside.leave().within(PATIENCE).await?;
                let left = count.left.load(Ordering::Acquire);
                ensure!(left == SIZE, "ended when only {left} had left");
            }
            Outcome::Ok(rounds)
        });
    }
    let mut all = Vec::new();
    for rounds in members.join_all().await {
        all.push(rounds?);
    }
    ensure!(all.iter().all(|rounds| *rounds == all[0]), "not one answer: {all:?}");
    ensure!(all[0].is_sorted_by(|a, b| a < b), "{all:?}");
    Ok(())
}

fn entering(locks: &Locks, size: usize, limit: Duration) -> JoinHandle<Result<Inside, Error>> {
    tokio::spawn(barrier(locks, size).enter().within(limit).into_future())
}

async fn rounds_have_their_size_and_nobody_is_in_two(store: Store) -> Outcome {
    let locks = client!(store);
    let waiting: Vec<_> = (0..7).map(|_| entering(&locks, 3, PATIENCE)).collect();
    let mut inside = Vec::new();
    let mut rest = Vec::new();
    for task in waiting {
        rest.push(task);
    }
    let begun = || async { Ok(rest.iter().filter(|task| task.is_finished()).count() == 6) };
    eventually("two rounds of three", begun).await?;
    for task in rest {
        if task.is_finished() {
            inside.push(task.await??);
        } else {
            task.abort();
        }
    }
    let mut rounds: Vec<u64> = inside.iter().map(Inside::round).collect();
    rounds.sort_unstable();
    ensure!(rounds == [1, 1, 1, 2, 2, 2], "{rounds:?}");
    let leaving = inside.into_iter().map(|it| it.leave().within(PATIENCE).into_future());
    let leaving: JoinSet<_> = leaving.collect();
    for left in leaving.join_all().await {
        left?;
    }
    nobody_is_here(&locks).await
}

async fn here(locks: &Locks) -> Outcome<usize> {
    Ok(locks.records::<serde_json::Value>("b/member").list(1).await?.len())
}

async fn are_here(locks: &Locks, count: usize) -> Outcome {
    eventually(&format!("{count} members"), || async { Ok(here(locks).await? == count) }).await
}

async fn nobody_is_here(locks: &Locks) -> Outcome {
    are_here(locks, 0).await
}

async fn who_gives_up_is_not_counted(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let error = barrier(&ours, 2).enter().within(SHORT / 10).await.err().ok_or("alone inside")?;
    ensure!(error.is_timed_out(), "{error:?}");
    let waiting = entering(&theirs, 2, PATIENCE);
    are_here(&ours, 1).await?;
    ensure!(!waiting.is_finished(), "began with one who had given up");
    let other = entering(&ours, 2, PATIENCE);
    let (one, two) = (waiting.await??, other.await??);
    ensure!(one.round() == two.round(), "{} and {}", one.round(), two.round());
    drop((one, two));
    nobody_is_here(&ours).await
}

/// Either both have begun, or the one who gave up was not counted.
async fn who_gives_up_in_the_last_moment_is_told_what_all_are_told(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let (mut together, mut apart) = (0, 0);
    for try_number in 0..24_u32 {
        let patient = entering(&theirs, 2, PATIENCE);
        are_here(&ours, 1).await?;
        // From far too short to long enough.
        let limit = Duration::from_micros(400) * (try_number * try_number / 4);
        match barrier(&ours, 2).enter().within(limit).await {
            Ok(inside) => {
                let other = patient.await??;
                ensure!(other.round() == inside.round(), "not one answer");
                together += 1;
            }
            Err(error) => {
                ensure!(error.is_timed_out(), "{error:?}");
                are_here(&ours, 1).await?;
                ensure!(!patient.is_finished(), "began with one who was told that it had not");
                patient.abort();
                apart += 1;
            }
        }
        nobody_is_here(&ours).await?;
    }
    ensure!(together + apart == 24, "{together} and {apart}");
    Ok(())
}

/// Has the store forget the clients that are here, as if they had died.
async fn evict_presences(locks: &Locks) -> Outcome {
    let found = locks.list("!presence/", Page::default()).await?;
    for status in found.names.into_iter().filter(|status| status.is_busy()) {
        locks.evict(Eviction::new(status.name, Target::All, "ann", "a test")?).await?;
    }
    Ok(())
}

async fn who_is_gone_before_is_not_counted(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let gone = entering(&ours, 2, PATIENCE);
    are_here(&theirs, 1).await?;
    evict_presences(&theirs).await?;
    // It comes back as a newcomer, and only then there are two.
    let other = entering(&theirs, 2, PATIENCE);
    let (one, two) = (gone.await??, other.await??);
    ensure!(one.round() == two.round(), "not one answer");
    drop((one, two));
    nobody_is_here(&ours).await
}

async fn who_is_gone_inside_has_left(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let (one, two) = (entering(&ours, 2, PATIENCE), entering(&theirs, 2, PATIENCE));
    let (one, two) = (one.await??, two.await??);
    ensure!(one.is_counted() && two.is_counted(), "nobody was away");
    // The store forgets both; the one that leaves must not wait for the other.
    evict_presences(&theirs).await?;
    eventually("it is told", || async { Ok(!one.is_counted()) }).await?;
    timeout(PATIENCE, two.leave().into_future()).await??;
    drop(one);
    nobody_is_here(&ours).await
}

async fn lost_replies_make_no_second_round(store: Store) -> Outcome {
    client!(store);
    let luck = BadLuck::default();
    let (ours, theirs) = store.open_twisted(luck.clone()).await?;
    for round in 1..=3 {
        let patient = entering(&theirs, 2, PATIENCE);
        are_here(&theirs, 1).await?;
        luck.lose(3);
        let inside = barrier(&ours, 2).enter().within(PATIENCE).await?;
        let other = patient.await??;
        ensure!((inside.round(), other.round()) == (round, round), "a round was made twice");
        ensure!(luck.losses() > 0, "nothing was lost");
        let left = tokio::spawn(other.leave().within(PATIENCE).into_future());
        inside.leave().within(PATIENCE).await?;
        left.await??;
    }
    Ok(())
}

async fn who_missed_the_decision_reads_it(store: Store) -> Outcome {
    let theirs = client!(store);
    let luck = BadLuck::default();
    let (ours, _below) = store.open_twisted(luck.clone()).await?;
    luck.miss(u32::MAX);
    let (one, two) = (entering(&ours, 2, PATIENCE), entering(&theirs, 2, PATIENCE));
    let (one, two) = (one.await??, two.await??);
    ensure!(one.round() == two.round(), "not one answer");
    let left = tokio::spawn(two.leave().within(PATIENCE).into_future());
    one.leave().within(PATIENCE).await?;
    left.await??;
    ensure!(luck.misses() > 0, "nothing was missed");
    Ok(())
}

async fn a_wait_dropped_at_any_point_is_not_counted(store: Store) -> Outcome {
    let (ours, other) = (client!(store), store.open().await?);
    let swept = tokio::task::spawn_blocking(move || {
        let make = || barrier(&ours, 2).enter().within(SHORT / 10).into_future();
        let verify = async |_| nobody_is_here(&other).await.map_err(|why| why.to_string());
        Sweep::default().run(make, verify)
    });
    let report = swept.await??;
    ensure!(!report.cancelled.is_empty(), "nothing was cancelled");
    Ok(())
}
