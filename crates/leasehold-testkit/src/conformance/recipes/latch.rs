//! Latches: nobody passes before they open, and nobody stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Effect, Latch, Result};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::clients;
use crate::conformance::check::{Check, Outcome, check, ensure};
use crate::conformance::patience::{PATIENCE, eventually};
use crate::conformance::store::Store;
use crate::faulty_records::BadLuck;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(nobody_passes_before_the_last_count_and_all_pass_after_it),
        check!(all_who_count_are_counted_once),
        check!(an_arrival_whose_reply_is_lost_counts_once),
        check!(whoever_waits_passes_although_the_latch_is_set_anew_at_once),
        check!(the_end_of_the_latch_before_opens_nothing),
        check!(a_wait_survives_changes_that_were_missed_at_each_step),
        check!(a_wait_outlasts_an_engine_that_goes_away),
        check!(a_wait_that_is_dropped_or_over_leaves_nothing),
    ]
}

/// Waits for the latch; fails if it is open before it was counted down.
fn passing(latch: &Latch, counted: &Arc<AtomicBool>) -> JoinHandle<Outcome> {
    let (wait, counted) = (latch.wait(), Arc::clone(counted));
    tokio::spawn(async move {
        timeout(PATIENCE, wait.into_future()).await??;
        ensure!(counted.load(Ordering::SeqCst), "it has passed before the last count");
        Ok(())
    })
}

/// The last count; whoever passes may do so from here on.
async fn finish(latch: &Latch, counted: &Arc<AtomicBool>) -> Result<u64> {
    counted.store(true, Ordering::SeqCst);
    latch.count_down().await
}

async fn nobody_passes_before_the_last_count_and_all_pass_after_it(store: Store) -> Outcome {
    let clients = clients(&store, 2).await?;
    let Some(first) = clients.first() else { return Ok(()) };
    let (latch, counted) = (first.latch("n"), Arc::new(AtomicBool::new(false)));
    latch.wait().await?;
    ensure!(latch.set(4).await?, "it was open");
    ensure!(!clients[1].latch("n").set(9).await?, "it was closed");
    let mut waiting = Vec::new();
    for client in clients.iter().cycle().take(6) {
        waiting.push(passing(&client.latch("n"), &counted));
        if waiting.len() % 2 == 0 {
            client.latch("n").count_down().await?;
        }
    }
    assert_eq!(latch.count().await?, 1);
    assert_eq!(finish(&latch, &counted).await?, 0);
    for waits in waiting {
        waits.await??;
    }
    assert_eq!((latch.count().await?, latch.count_down().await?), (0, 0));
    latch.wait().await?;
    Ok(())
}

async fn all_who_count_are_counted_once(store: Store) -> Outcome {
    let clients = clients(&store, 2).await?;
    let Some(first) = clients.first() else { return Ok(()) };
    first.latch("n").set(25).await?;
    let mut tasks = JoinSet::new();
    for at in 0..24 {
        let latch = clients[at % 2].latch("n");
        tasks.spawn(async move {
            match at / 3 {
                // Each of these arrives three times.
                group @ 0..4 => latch.arrive(format!("group {group}")).await,
                _ => latch.count_down().await,
            }
        });
    }
    while let Some(left) = tasks.join_next().await {
        ensure!(left?? > 0, "it is open");
    }
    assert_eq!(first.latch("n").count().await?, 25 - 4 - 12);
    Ok(())
}

async fn an_arrival_whose_reply_is_lost_counts_once(store: Store) -> Outcome {
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let latch = unlucky.latch("n");
    latch.set(2).await?;
    for (id, left) in [("a", 1), ("b", 0)] {
        luck.lose(1);
        let error = latch.arrive(id).await.err().ok_or("the reply was not lost")?;
        ensure!(error.effect() == Effect::Unknown, "{error:?}");
        assert_eq!(below.latch("n").count().await?, left);
        assert_eq!(latch.arrive(id).await?, left);
    }
    ensure!(luck.is_over(), "the fault did not happen");
    Ok(())
}

/// A wait that has seen the latch that it waits for.
async fn begun(luck: &BadLuck, latch: &Latch) -> Outcome<JoinHandle<Result<()>>> {
    let before = luck.looks();
    let waiting = tokio::spawn(latch.wait().into_future());
    eventually("it looks", || async { Ok(luck.looks() > before) }).await?;
    Ok(waiting)
}

async fn whoever_waits_passes_although_the_latch_is_set_anew_at_once(store: Store) -> Outcome {
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let latch = below.latch("n");
    for missed in [0, 1, 2, 3] {
        latch.set(2).await?;
        let waiting = begun(&luck, &unlucky.latch("n")).await?;
        luck.miss(missed);
        for _ in 0..2 {
            latch.count_down().await?;
        }
        latch.set(1).await?;
        timeout(PATIENCE, waiting).await???;
        latch.count_down().await?;
        luck.miss(0);
    }
    Ok(())
}

/// It watches; the latch before is opened, and another one is set; it looks. What it
/// hears then is older than what it has seen.
async fn the_end_of_the_latch_before_opens_nothing(store: Store) -> Outcome {
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let latch = below.latch("n");
    for _ in 0..5 {
        let counted = Arc::new(AtomicBool::new(false));
        latch.set(1).await?;
        let again = latch.clone();
        luck.before_the_next_look(Box::pin(async move {
            again.count_down().await.expect("a count");
            again.set(2).await.expect("an open latch");
        }));
        let waiting = passing(&unlucky.latch("n"), &counted);
        eventually("it looks", || async { Ok(luck.is_over()) }).await?;
        // Whoever hears of this count has heard of the end before it.
        eventually("it is set anew", || async { Ok(latch.count().await? == 2) }).await?;
        latch.count_down().await?;
        assert_eq!(finish(&latch, &counted).await?, 0);
        waiting.await??;
    }
    Ok(())
}

async fn a_wait_survives_changes_that_were_missed_at_each_step(store: Store) -> Outcome {
    const COUNT: u64 = 4;
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let latch = below.latch("n");
    for step in 0..COUNT {
        latch.set(COUNT).await?;
        let waiting = begun(&luck, &unlucky.latch("n")).await?;
        for count in 0..COUNT {
            ensure!(!waiting.is_finished(), "it has passed before the last count");
            luck.miss(u32::from(count == step));
            let before = luck.changes();
            latch.count_down().await?;
            // A look for what it missed may find the latch open already.
            let told = || async { Ok(luck.changes() > before || waiting.is_finished()) };
            eventually("it is told", told).await?;
        }
        timeout(PATIENCE, waiting).await???;
        ensure!(luck.is_over(), "the fault did not happen");
    }
    Ok(())
}

async fn a_wait_outlasts_an_engine_that_goes_away(store: Store) -> Outcome {
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let latch = below.latch("n");
    latch.set(2).await?;
    let waiting = begun(&luck, &unlucky.latch("n")).await?;
    luck.miss(1);
    luck.go_away(3);
    latch.count_down().await?;
    eventually("it asks until it is told", || async { Ok(luck.is_over()) }).await?;
    latch.count_down().await?;
    timeout(PATIENCE, waiting).await???;
    Ok(())
}

async fn a_wait_that_is_dropped_or_over_leaves_nothing(store: Store) -> Outcome {
    let clients = clients(&store, 1).await?;
    let Some(client) = clients.first() else { return Ok(()) };
    let latch = client.latch("n");
    latch.set(1).await?;
    for wait in 0..20 {
        let late = latch.wait().within(Duration::from_millis(wait));
        ensure!(late.await.is_err_and(|error| error.is_timed_out()), "it is closed");
        let dropped = tokio::spawn(latch.wait().into_future());
        tokio::task::yield_now().await;
        dropped.abort();
    }
    latch.count_down().await?;
    latch.wait().await?;
    let records = client.records::<serde_json::Value>("").list(usize::MAX).await?;
    ensure!(records.is_empty(), "left: {records:?}");
    Ok(())
}
