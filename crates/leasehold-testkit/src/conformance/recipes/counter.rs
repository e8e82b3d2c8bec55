//! Counters: what was confirmed counts, once.

use leasehold::{Counter, Effect};
use tokio::task::JoinSet;

use super::clients;
use crate::conformance::check::{Check, Outcome, check, ensure};
use crate::conformance::patience::PATIENCE;
use crate::conformance::store::Store;
use crate::faulty_records::BadLuck;
use crate::sweep::block_on;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(adds_and_updates_of_many_lose_nothing),
        check!(an_update_that_loses_too_often_goes_on_under_the_mutex),
        check!(a_change_whose_reply_is_lost_is_told_and_not_repeated),
    ]
}

async fn change(counter: Counter, rounds: i64) -> Outcome {
    for round in 1..=rounds {
        counter.add(round).await?;
        counter.update(|n| n - round + 1).await?;
    }
    Ok(())
}

async fn adds_and_updates_of_many_lose_nothing(store: Store) -> Outcome {
    let clients = clients(&store, 2).await?;
    let Some(first) = clients.first() else { return Ok(()) };
    let mut tasks = JoinSet::new();
    for client in clients.iter().cycle().take(6) {
        tasks.spawn(change(client.counter("n").promote_after(2), 10));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    assert_eq!(first.counter("n").get().await?, 60);
    Ok(())
}

async fn an_update_that_loses_too_often_goes_on_under_the_mutex(store: Store) -> Outcome {
    let clients = clients(&store, 2).await?;
    let [one, two] = &clients[..] else { return Ok(()) };
    let (mut others, counter) = (Some(two.counter("n")), one.counter("n").promote_after(1));
    let change = |n| {
        // Between its first look and its write.
        others.take().into_iter().for_each(add_ten);
        n + 1
    };
    let updated = counter.update(change).await?;
    ensure!((updated.value, updated.tries, updated.promoted) == (11, 2, true), "{updated:?}");
    two.mutex("n").lock().within(PATIENCE).await?.release().await?;
    Ok(())
}

/// On another thread, while this one waits.
fn add_ten(counter: Counter) {
    let thread = std::thread::spawn(move || block_on(async move { counter.add(10).await }));
    thread.join().expect("a thread").expect("a sum");
}

async fn a_change_whose_reply_is_lost_is_told_and_not_repeated(store: Store) -> Outcome {
    let luck = BadLuck::default();
    let (unlucky, below) = store.open_twisted(luck.clone()).await?;
    if below.engine().records().is_none() {
        return Ok(());
    }
    let counter = unlucky.counter("n");
    assert_eq!(counter.add(1).await?, 1);
    luck.lose(1);
    let error = counter.add(10).await.err().ok_or("the reply was not lost")?;
    ensure!(error.effect() == Effect::Unknown, "{error:?}");
    luck.lose(1);
    let error = counter.update(|n| n + 100).await.err().ok_or("the reply was not lost")?;
    ensure!(error.effect() == Effect::Unknown, "{error:?}");
    ensure!(luck.is_over(), "the fault did not happen");
    assert_eq!(below.counter("n").get().await?, 111);
    Ok(())
}
