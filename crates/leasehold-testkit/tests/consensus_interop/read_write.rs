//! `InterProcessReadWriteLock` and our read-write lock.

use leasehold::Mode;
use leasehold_testkit::contest::{BOUND, Checked, until};

use crate::stage::{LONG, NOW, PATH, Stage, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_both_sides_share_and_keep_writers_out() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let lock = ours.rwlock(PATH).ttl(LONG);
    let reader = lock.read().await?;
    token(java.lock("read", PATH, NOW, NOW)?)?;
    assert!(lock.try_write().await?.is_none(), "a writer beside readers");
    reader.release().await?;
    assert!(lock.try_write().await?.is_none(), "a writer beside Curator's reader");
    assert!(java.unlock("read", PATH)?.is_some());
    let writer = lock.write().within(BOUND).await?;
    assert!(java.lock("read", PATH, NOW, NOW)?.is_none(), "a reader beside our writer");
    assert!(java.lock("write", PATH, NOW, NOW)?.is_none(), "two writers");
    writer.release().await?;
    token(java.lock("write", PATH, NOW, NOW)?)?;
    assert!(lock.try_read().await?.is_none(), "a reader beside Curator's writer");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_reader_of_either_side_lets_the_writer_of_the_other_in() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let lock = ours.rwlock(PATH).ttl(LONG);
    let queued = || async { Ok(lock.status().await?.waiters.len() == 1) };
    let reader = lock.read().await?;
    java.ask("write", PATH, BOUND, NOW)?;
    until("Curator's writer queues", queued).await?;
    reader.release().await?;
    token(java.granted()?)?;
    assert!(java.unlock("write", PATH)?.is_some());
    let theirs = token(java.lock("read", PATH, NOW, NOW)?)?;
    let waiting = tokio::spawn(lock.write().within(BOUND).into_future());
    until("our writer queues", queued).await?;
    assert!(java.unlock("read", PATH)?.is_some());
    assert!(waiting.await??.fence() > theirs);
    Ok(())
}

/// A reader that comes after a waiting writer waits behind it, on either side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_does_not_overtake_a_writer_of_the_other_side() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let lock = ours.rwlock(PATH).ttl(LONG);
    let reader = lock.read().await?;
    java.ask("write", PATH, BOUND, NOW)?;
    until("the writer queues", || async { Ok(lock.status().await?.waiters.len() == 1) }).await?;
    let waiting = tokio::spawn(lock.read().within(BOUND).into_future());
    until("the reader queues", || async { Ok(lock.status().await?.waiters.len() == 2) }).await?;
    reader.release().await?;
    let writer = token(java.granted()?)?;
    assert!(!waiting.is_finished(), "a reader beside a writer");
    assert!(java.unlock("write", PATH)?.is_some());
    assert!(waiting.await??.fence() > writer);
    Ok(())
}

/// Our writer becomes a reader without letting a writer in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_ours_that_reads_on_lets_curators_readers_in() -> Checked {
    let Stage { ours, mut java, server: _server } = Stage::new().await?;
    let mut guard = ours.rwlock(PATH).ttl(LONG).write().await?;
    guard.convert(Mode::Read).await?;
    token(java.lock("read", PATH, BOUND, NOW)?)?;
    assert!(java.unlock("read", PATH)?.is_some());
    assert!(java.lock("write", PATH, NOW, NOW)?.is_none(), "a writer beside our reader");
    guard.check()?;
    guard.release().await?;
    token(java.lock("write", PATH, NOW, NOW)?)?;
    Ok(())
}
