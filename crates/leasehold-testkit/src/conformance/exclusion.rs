//! One holder at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::engine::profile::Order;
use leasehold::{Guard, Released};
use tokio::task::yield_now;

use super::check::{Check, Outcome, check, ensure};
use super::recipe::{Client, Lockable, Recipe};
use super::store::Store;
use crate::check as history;
use crate::history::{History, Mode, OpId, Outcome as Ended, Recorder, Term};
use crate::sweep::block_on;

const ROUNDS: u64 = 40;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(a_held_name_is_busy_for_everyone).over(&Recipe::ALL),
        check!(tasks_of_one_client_never_overlap).over(&Recipe::ALL),
        check!(clients_never_overlap).over(&Recipe::ALL),
        check!(fair_clients_never_overlap).over(&Recipe::ALL).when(|p| p.order == Order::Fifo),
        check!(threads_without_a_runtime_never_overlap).over(&Recipe::ALL),
    ]
}

async fn a_held_name_is_busy_for_everyone(store: Store) -> Outcome {
    let (one, two) = (store.open().await?, store.open().await?);
    let guard = one.mutex("n").try_lock().await?.ok_or("a new name is not free")?;
    for locks in [&one, &two] {
        ensure!(locks.mutex("n").try_lock().await?.is_none(), "two holders of one name");
    }
    ensure!(guard.release().await? == Released::Released, "it was ours");
    ensure!(two.mutex("n").try_lock().await?.is_some(), "a released name is not free");
    Ok(())
}

async fn tasks_of_one_client_never_overlap(store: Store) -> Outcome {
    let locks = store.open().await?;
    hammer(&store, vec![locks.mutex("n"); 8]).await
}

async fn clients_never_overlap(store: Store) -> Outcome {
    let clients = store.open_many(6).await?;
    hammer(&store, clients.iter().map(|locks| locks.mutex("n")).collect()).await
}

async fn fair_clients_never_overlap(store: Store) -> Outcome {
    let clients = store.open_many(3).await?;
    let twice = clients.iter().chain(&clients);
    hammer(&store, twice.map(|locks| locks.mutex("n").fair()).collect()).await
}

async fn threads_without_a_runtime_never_overlap(store: Store) -> Outcome {
    let clients = store.open_many(4).await?;
    let tally = Tally::new(&store)?;
    let work = clients.into_iter().map(|locks| on_a_thread(locks, tally.clone()));
    for thread in work.collect::<Vec<_>>() {
        tokio::task::spawn_blocking(|| thread.join()).await?.map_err(|_| "a thread panicked")??;
    }
    tally.verify(4)
}

fn on_a_thread(locks: Client, tally: Tally) -> std::thread::JoinHandle<Outcome> {
    std::thread::spawn(move || block_on(add(locks.mutex("n"), tally)))
}

/// Lets every task add to one counter, and checks what came of it.
async fn hammer(store: &Store, tasks: Vec<Lockable>) -> Outcome {
    let (tally, count) = (Tally::new(store)?, tasks.len() as u64);
    let run = tasks.into_iter().map(|mutex| tokio::spawn(add(mutex, tally.clone())));
    for task in run.collect::<Vec<_>>() {
        task.await??;
    }
    tally.verify(count)
}

async fn add(mutex: Lockable, tally: Tally) -> Outcome {
    for _ in 0..ROUNDS {
        let asked = tally.recorder.acquire("n", Mode::Exclusive);
        let guard = mutex.lock().await?;
        tally.add_under(&guard, asked).await;
        let ending = tally.recorder.release(asked);
        let released = guard.release().await?;
        let lost = released == Released::AlreadyLost;
        tally.recorder.released(ending, if lost { Ended::Fail } else { Ended::Ok });
    }
    Ok(())
}

/// A counter that only a lock makes right, and the history of that lock.
#[derive(Clone)]
struct Tally {
    count: Arc<AtomicU64>,
    recorder: Arc<Recorder>,
    path: std::path::PathBuf,
}

impl Tally {
    fn new(store: &Store) -> Outcome<Self> {
        let path = store.scratch("history");
        let recorder = Arc::new(Recorder::open(&path)?);
        Ok(Self { count: Arc::default(), recorder, path })
    }

    /// Reads, lets others run, writes.
    async fn add_under(&self, guard: &Guard, asked: OpId) {
        let deadline = Some(guard.deadline().nanos());
        self.recorder.granted(asked, guard.fence(), Term { deadline, expires: deadline });
        let seen = self.count.load(Ordering::Relaxed);
        yield_now().await;
        self.count.store(seen + 1, Ordering::Relaxed);
    }

    fn verify(&self, tasks: u64) -> Outcome {
        let (counted, expected) = (self.count.load(Ordering::Relaxed), tasks * ROUNDS);
        ensure!(counted == expected, "{counted} instead of {expected}: an update was lost");
        let history = History::read(&self.path)?;
        ensure!(history.grants().len() as u64 == expected, "the history has holes");
        Ok(history::all(&history)?)
    }
}
