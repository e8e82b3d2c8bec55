//! Permits, as users see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::engine::profile::{Grants, Order};
use leasehold::{ErrorKind, Mode, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, eventually};
use super::store::Store;

const PERMITS: u32 = 5;
/// How many small takers come and go.
const SMALL: usize = 6;

pub(super) fn checks() -> Vec<Check> {
    let plain = [
        check!(every_permit_counts),
        check!(permits_come_back_by_weight),
        check!(permits_that_expire_come_back),
        check!(holders_never_have_more_than_there_are),
        check!(more_permits_than_there_are_is_an_error),
        check!(another_number_is_an_error_while_held_and_fine_when_free),
    ];
    let fifo = [check!(a_stream_of_small_takers_does_not_starve_a_large_one)];
    let mut checks = plain.map(|it| it.when(|p| p.grants >= Grants::Counted)).to_vec();
    checks
        .extend(fifo.map(|it| it.when(|p| p.grants >= Grants::Counted && p.order == Order::Fifo)));
    checks
}

async fn permits(store: &Store) -> Outcome<Semaphore> {
    Ok(store.open().await?.semaphore("n", PERMITS).ttl(HOUR))
}

async fn every_permit_counts(store: Store) -> Outcome {
    let (one, two) = (permits(&store).await?, permits(&store).await?);
    let _three = one.try_acquire(3).await?.ok_or("three of five")?;
    ensure!(two.try_acquire(3).await?.is_none(), "six of five");
    let _two = two.try_acquire(2).await?.ok_or("five of five")?;
    ensure!(one.try_acquire(1).await?.is_none(), "six of five");
    Ok(())
}

async fn permits_come_back_by_weight(store: Store) -> Outcome {
    let semaphore = permits(&store).await?;
    let (two, three) = (semaphore.acquire(2).await?, semaphore.acquire(3).await?);
    two.release().await?;
    ensure!(semaphore.try_acquire(3).await?.is_none(), "two came back, not three");
    let again = semaphore.try_acquire(2).await?.ok_or("two came back")?;
    three.release().await?;
    again.release().await?;
    ensure!(semaphore.try_acquire(PERMITS).await?.is_some(), "not all came back");
    Ok(())
}

async fn permits_that_expire_come_back(store: Store) -> Outcome {
    let (one, two) = (permits(&store).await?, permits(&store).await?);
    let short = store.open().await?.short();
    let expiring = one.ttl(short).renew(false).acquire(4).await?;
    let all = two.acquire(PERMITS).within(PATIENCE).await?;
    ensure!(expiring.check().is_err(), "nine of five");
    Ok(all.check()?)
}

async fn holders_never_have_more_than_there_are(store: Store) -> Outcome {
    let (one, two) = (permits(&store).await?, permits(&store).await?);
    let taken = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (1..=3_usize)
        .flat_map(|take| [(take, one.clone()), (take, two.clone())])
        .map(|(take, semaphore)| tokio::spawn(take_often(semaphore, take, Arc::clone(&taken))))
        .collect();
    for task in tasks {
        timeout(2 * PATIENCE, task).await???;
    }
    Ok(())
}

async fn take_often(semaphore: Semaphore, take: usize, taken: Arc<AtomicUsize>) -> Outcome {
    for _ in 0..30 {
        let guard = semaphore.acquire(u32::try_from(take)?).await?;
        let now = taken.fetch_add(take, Ordering::SeqCst) + take;
        ensure!(now <= PERMITS as usize, "{now} of {PERMITS} are taken");
        tokio::task::yield_now().await;
        taken.fetch_sub(take, Ordering::SeqCst);
        guard.release().await?;
    }
    Ok(())
}

async fn more_permits_than_there_are_is_an_error(store: Store) -> Outcome {
    let semaphore = permits(&store).await?;
    for take in [0, PERMITS + 1] {
        let error = semaphore.acquire(take).await.err().ok_or("granted")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        ensure!(error.to_string().contains(&PERMITS.to_string()), "no limit: {error}");
    }
    ensure!(!semaphore.status().await?.is_busy(), "something stays");
    Ok(())
}

async fn another_number_is_an_error_while_held_and_fine_when_free(store: Store) -> Outcome {
    let client = store.open().await?;
    let (five, six) = (client.semaphore("n", 5), client.semaphore("n", 6));
    let guard = five.acquire(1).await?;
    for error in [six.try_acquire(1).await.err(), six.acquire(1).await.err()] {
        let error = error.ok_or("numbers were mixed")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        ensure!(error.to_string().contains('5'), "it does not say the number in use: {error}");
    }
    guard.release().await?;
    ensure!(six.try_acquire(6).await?.is_some(), "a free name takes any number");
    Ok(())
}

/// By count, not by time: whoever takes after the large one has queued was in
/// line before it, and each task can have been so only once.
async fn a_stream_of_small_takers_does_not_starve_a_large_one(store: Store) -> Outcome {
    let (busy, lone) = (permits(&store).await?, permits(&store).await?);
    let anchor = busy.acquire(1).await?;
    let admitted = Arc::new(AtomicUsize::new(0));
    let stream: Vec<_> = (0..SMALL)
        .map(|_| tokio::spawn(take_for_ever(busy.clone(), Arc::clone(&admitted))))
        .collect();
    eventually("a stream", || async { Ok(admitted.load(Ordering::SeqCst) > SMALL) }).await?;
    let large = tokio::spawn(lone.acquire(PERMITS).into_future());
    large_in_line(&lone).await?;
    let before = admitted.load(Ordering::SeqCst);
    drop(anchor);
    let guard = timeout(PATIENCE, large).await???;
    let passed = admitted.load(Ordering::SeqCst) - before;
    stream.iter().for_each(JoinHandle::abort);
    ensure!(passed <= SMALL, "{passed} small takers came in before the large one in line");
    Ok(guard.check()?)
}

async fn large_in_line(semaphore: &Semaphore) -> Outcome {
    let large = Mode::Permits { take: PERMITS, of: PERMITS };
    eventually("the large taker in line", || async {
        Ok(semaphore.status().await?.waiters.iter().any(|it| it.mode == large))
    })
    .await
}

async fn take_for_ever(semaphore: Semaphore, admitted: Arc<AtomicUsize>) -> Outcome {
    loop {
        let guard = semaphore.acquire(1).await?;
        admitted.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        drop(guard);
    }
}
