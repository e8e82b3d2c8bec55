//! `InterProcessSemaphoreV2`, `InterProcessSemaphoreMutex` and our semaphore.

use leasehold_testkit::contest::{BOUND, Checked, until};

use crate::stage::{LONG, NOW, PATH, Stage, token};

const KIND: &str = "semaphore:3";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_counted_over_both_sides() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let semaphore = ours.semaphore(PATH, 3).ttl(LONG);
    let one = semaphore.acquire(1).await?;
    token(java.lock(KIND, PATH, BOUND, NOW)?)?;
    let two = semaphore.try_acquire(1).await?.ok_or("the third permit was free")?;
    assert!(semaphore.try_acquire(1).await?.is_none(), "a fourth permit");
    assert!(java.lock(KIND, PATH, NOW, NOW)?.is_none(), "a fourth permit");
    two.release().await?;
    token(java.lock(KIND, PATH, BOUND, NOW)?)?;
    assert!(semaphore.try_acquire(1).await?.is_none(), "a fourth permit");
    one.check()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_given_back_on_either_side_lets_the_other_in() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let semaphore = ours.semaphore(PATH, 3).ttl(LONG);
    let all = semaphore.acquire(3).await?;
    java.ask(KIND, PATH, BOUND, NOW)?;
    until("Curator queues", || async { Ok(semaphore.status().await?.waiters.len() == 1) }).await?;
    all.release().await?;
    token(java.granted()?)?;
    let waiting = tokio::spawn(semaphore.acquire(3).within(BOUND).into_future());
    until("we queue", || async { Ok(semaphore.status().await?.waiters.len() == 1) }).await?;
    assert!(java.unlock(KIND, PATH)?.is_some());
    waiting.await??.check()?;
    Ok(())
}

/// Permits of a dead holder come back with its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permits_of_a_killed_curator_come_back() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    token(java.lock(KIND, PATH, BOUND, NOW)?)?;
    token(java.lock(KIND, PATH, BOUND, NOW)?)?;
    java.kill()?;
    ours.semaphore(PATH, 3).ttl(LONG).acquire(3).within(BOUND).await?.check()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_mutex_is_shared_both_ways() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::with("mutex=semaphore").await?;
    let mutex = ours.mutex(PATH).ttl(LONG);
    let guard = mutex.lock().await?;
    assert!(java.lock("semaphore_mutex", PATH, NOW, NOW)?.is_none(), "two holders");
    java.ask("semaphore_mutex", PATH, BOUND, NOW)?;
    until("Curator queues", || async { Ok(mutex.status().await?.waiters.len() == 1) }).await?;
    let fence = guard.fence();
    guard.release().await?;
    let theirs = token(java.granted()?)?;
    assert!(theirs > fence);
    assert!(mutex.try_lock().await?.is_none(), "two holders");
    let waiting = tokio::spawn(mutex.lock().within(BOUND).into_future());
    until("we queue", || async { Ok(mutex.status().await?.waiters.len() == 1) }).await?;
    assert!(java.unlock("semaphore_mutex", PATH)?.is_some());
    assert!(waiting.await??.fence() > theirs);
    Ok(())
}
