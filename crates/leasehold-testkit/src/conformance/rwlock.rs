//! Many readers or one writer, as users see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::engine::profile::{Grants, Order};
use leasehold::{ErrorKind, Guard, Mode, RwLock};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, eventually};
use super::store::Store;

/// How many readers come and go.
const READERS: usize = 6;

pub(super) fn checks() -> Vec<Check> {
    let plain = [
        check!(many_readers_hold_side_by_side),
        check!(a_writer_waits_for_every_reader).of_a_queue(),
        check!(readers_that_wait_come_in_together).of_a_queue(),
        check!(a_read_and_a_mutex_do_not_mix),
    ];
    let fifo = [
        check!(a_stream_of_readers_does_not_starve_a_writer),
        check!(a_reader_before_a_writer_is_served_before_it),
    ];
    let converts = [
        check!(a_writer_that_becomes_a_reader_lets_readers_in_and_keeps_its_fence).of_a_queue(),
        check!(a_reader_that_wants_to_write_is_told_why_not),
    ];
    let mut checks = plain.map(|it| it.when(|p| p.grants >= Grants::Shared)).to_vec();
    checks.extend(fifo.map(|it| it.when(|p| p.grants >= Grants::Shared && p.order == Order::Fifo)));
    checks.extend(converts.map(|it| it.when(|p| p.convert)));
    checks
}

async fn rwlock(store: &Store) -> Outcome<RwLock> {
    Ok(store.open().await?.rwlock("n").ttl(HOUR))
}

fn read(lock: &RwLock) -> JoinHandle<leasehold::Result<Guard>> {
    tokio::spawn(lock.read().into_future())
}

fn write(lock: &RwLock) -> JoinHandle<leasehold::Result<Guard>> {
    tokio::spawn(lock.write().into_future())
}

/// What must come in the end.
async fn served(waiter: JoinHandle<leasehold::Result<Guard>>) -> Outcome<Guard> {
    Ok(timeout(PATIENCE, waiter).await???)
}

/// Waits until so many of this mode are in the queue.
async fn in_line(lock: &RwLock, mode: Mode, count: usize) -> Outcome {
    eventually(&format!("{count} waiting to {mode}"), || async {
        let waiters = lock.status().await?.waiters;
        Ok(waiters.iter().filter(|it| it.mode == mode).count() == count)
    })
    .await
}

async fn many_readers_hold_side_by_side(store: Store) -> Outcome {
    let (one, two) = (rwlock(&store).await?, rwlock(&store).await?);
    let mut readers = Vec::new();
    for at in 0..20 {
        let lock = if at % 2 == 0 { &one } else { &two };
        readers.push(lock.try_read().await?.ok_or("a reader is in the way of a reader")?);
    }
    ensure!(one.try_write().await?.is_none(), "a writer beside readers");
    ensure!(one.status().await?.holders.len() == 20, "{:?}", one.status().await?);
    Ok(readers.iter().try_for_each(Guard::check)?)
}

async fn a_writer_waits_for_every_reader(store: Store) -> Outcome {
    let (one, two) = (rwlock(&store).await?, rwlock(&store).await?);
    let (first, last) = (one.read().await?, one.read().await?);
    let writer = write(&two);
    in_line(&one, Mode::Write, 1).await?;
    first.release().await?;
    ensure!(two.status().await?.holders.len() == 1, "it did not wait for the last reader");
    let fence = last.fence();
    last.release().await?;
    let guard = served(writer).await?;
    ensure!(guard.fence() > fence, "the fence did not grow");
    ensure!(one.try_read().await?.is_none(), "a reader beside a writer");
    Ok(())
}

async fn readers_that_wait_come_in_together(store: Store) -> Outcome {
    let locks = [rwlock(&store).await?, rwlock(&store).await?, rwlock(&store).await?];
    let writer = locks[0].write().await?;
    let waiting: Vec<_> = locks.iter().map(read).collect();
    in_line(&locks[0], Mode::Read, 3).await?;
    writer.release().await?;
    let mut readers = Vec::new();
    for waiter in waiting {
        readers.push(served(waiter).await?);
    }
    ensure!(locks[0].status().await?.holders.len() == 3, "they came one by one");
    Ok(readers.iter().try_for_each(Guard::check)?)
}

async fn a_read_and_a_mutex_do_not_mix(store: Store) -> Outcome {
    let client = store.open().await?;
    let _reader = client.rwlock("n").read().await?;
    let error = client.mutex("n").try_lock().await.err().ok_or("kinds were mixed")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    ensure!(error.to_string().contains("read"), "it does not say what is in use: {error}");
    Ok(())
}

/// By count, not by time: whoever reads after the writer has queued was in line
/// before it, and each task can have been so only once.
async fn a_stream_of_readers_does_not_starve_a_writer(store: Store) -> Outcome {
    let (busy, lone) = (rwlock(&store).await?, rwlock(&store).await?);
    let anchor = busy.read().await?;
    let admitted = Arc::new(AtomicUsize::new(0));
    let stream: Vec<_> = (0..READERS)
        .map(|_| tokio::spawn(read_for_ever(busy.clone(), Arc::clone(&admitted))))
        .collect();
    eventually("a stream", || async { Ok(admitted.load(Ordering::SeqCst) > READERS) }).await?;
    let writer = write(&lone);
    in_line(&lone, Mode::Write, 1).await?;
    let before = admitted.load(Ordering::SeqCst);
    drop(anchor);
    let guard = served(writer).await?;
    let passed = admitted.load(Ordering::SeqCst) - before;
    stream.iter().for_each(JoinHandle::abort);
    ensure!(passed <= READERS, "{passed} readers came in before the writer that was in line");
    Ok(guard.check()?)
}

async fn read_for_ever(lock: RwLock, admitted: Arc<AtomicUsize>) -> Outcome {
    loop {
        let guard = lock.read().await?;
        admitted.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        drop(guard);
    }
}

/// A reader that also waits for writers behind it waits for ever.
async fn a_reader_before_a_writer_is_served_before_it(store: Store) -> Outcome {
    let (one, two) = (rwlock(&store).await?, rwlock(&store).await?);
    let three = rwlock(&store).await?;
    let holder = one.write().await?;
    let reader = read(&two);
    in_line(&one, Mode::Read, 1).await?;
    let writer = write(&three);
    in_line(&one, Mode::Write, 1).await?;
    holder.release().await?;
    let guard = served(reader).await?;
    let fence = guard.fence();
    guard.release().await?;
    ensure!(served(writer).await?.fence() > fence, "the writer was served first");
    Ok(())
}

async fn a_writer_that_becomes_a_reader_lets_readers_in_and_keeps_its_fence(
    store: Store,
) -> Outcome {
    let (one, two) = (rwlock(&store).await?, rwlock(&store).await?);
    let mut guard = one.write().await?;
    let fence = guard.fence();
    let waiting = read(&two);
    in_line(&one, Mode::Read, 1).await?;
    guard.convert(Mode::Read).await?;
    let reader = served(waiting).await?;
    ensure!(guard.fence() == fence && guard.mode() == Mode::Read, "{guard:?}");
    ensure!(two.try_write().await?.is_none(), "a writer beside readers");
    guard.check()?;
    guard.release().await?;
    reader.release().await?;
    ensure!(two.try_write().await?.is_some(), "something stays after the last reader");
    Ok(())
}

async fn a_reader_that_wants_to_write_is_told_why_not(store: Store) -> Outcome {
    let lock = rwlock(&store).await?;
    let mut guard = lock.read().await?;
    let error = guard.convert(Mode::Write).await.err().ok_or("it was converted")?;
    ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
    ensure!(error.to_string().contains("wait for each other"), "no reason: {error}");
    ensure!(guard.mode() == Mode::Read, "{guard:?}");
    Ok(guard.check()?)
}
