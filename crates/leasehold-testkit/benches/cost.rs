//! What a lock costs, as ratios within one run. `cargo xtask bench` runs it and
//! prints the table of docs/benchmarks.md.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::time::{Duration, Instant};

use leasehold::{Locks, Mutex, Result};
use leasehold_testkit::worked;
use rusqlite::Connection;
use tempfile::TempDir;

const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(report())
}

async fn report() -> Result<()> {
    let folder = TempDir::new().expect("a folder");
    let sqlite = leasehold::open(format!("sqlite:{}/locks.db", folder.path().display())).await?;
    let memory = Locks::memory();
    println!("| work | measured | compared with | ratio |\n|---|---|---|---|");
    uncontended(&memory, &sqlite, &folder).await?;
    throughput(&sqlite, &folder).await?;
    hand_over(&memory, &sqlite).await?;
    keeping(&folder).await
}

async fn uncontended(memory: &Locks, sqlite: &Locks, folder: &TempDir) -> Result<()> {
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    let mut bare = Bare::open(folder);
    for _ in 0..ROUNDS {
        samples[0].push(pairs(&memory.mutex("m"), 20_000).await?);
        samples[1].push(pairs(&sqlite.mutex("m"), 2_000).await?);
        samples[2].push(time(2_000, || bare.pair()));
    }
    let [memory, sqlite, bare] = samples.map(best);
    row("memory: lock + release", memory, "2 µs", Duration::from_micros(2));
    row("sqlite: lock + release", sqlite, "two bare transactions", bare);
    Ok(())
}

async fn throughput(sqlite: &Locks, folder: &TempDir) -> Result<()> {
    const TASKS: usize = 64;
    let mut bare = Bare::open(folder);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let tasks = (0..TASKS).map(|n| {
            let mutex = sqlite.mutex(format!("t{n}"));
            tokio::spawn(async move { pairs(&mutex, 200).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic")?;
        }
        ours.push(start.elapsed() / (TASKS as u32 * 200));
        theirs.push(time(5_000, || bare.pair()));
    }
    row("sqlite: a pair of 64 tasks", best(ours), "two bare transactions", best(theirs));
    Ok(())
}

async fn hand_over(memory: &Locks, sqlite: &Locks) -> Result<()> {
    for (what, locks) in [("memory", memory), ("sqlite", sqlite)] {
        for waiters in [1, 100, 1000] {
            let mutex = locks.mutex("crowd");
            // One hand-over alone says little.
            let mut samples = Vec::new();
            for _ in 0..1_000 / waiters {
                samples.push(crowd(&mutex, waiters).await?);
            }
            samples.sort_unstable();
            let each = samples[samples.len() / 2];
            println!("| {what}: hand-over, {waiters} local waiters | {each:?} | | |");
        }
    }
    Ok(())
}

/// Everyone queues while one holds; then each hands over to the next.
async fn crowd(mutex: &Mutex, waiters: u32) -> Result<Duration> {
    let first = mutex.lock().await?;
    let wait = |_| {
        let mutex = mutex.clone();
        tokio::spawn(async move { mutex.lock().await?.release().await })
    };
    let tasks: Vec<_> = (0..waiters).map(wait).collect();
    while mutex.status().await?.waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    first.release().await?;
    for task in tasks {
        task.await.expect("no panic")?;
    }
    Ok(start.elapsed() / waiters)
}

/// A hundred thousand leases at a ttl of 30 s: what part of a core they cost.
async fn keeping(folder: &TempDir) -> Result<()> {
    const LEASES: usize = 100_000;
    const WATCH: Duration = Duration::from_secs(20);
    let url = format!("sqlite:{}/many.db", folder.path().display());
    let locks = leasehold::open(url).await?;
    let mut guards = Vec::with_capacity(LEASES);
    let take = |n: usize| {
        let mutex = locks.mutex(format!("lease/{n}"));
        tokio::spawn(async move { mutex.lock().await })
    };
    for chunk in (0..LEASES).collect::<Vec<_>>().chunks(1_000) {
        for task in chunk.iter().copied().map(take).collect::<Vec<_>>() {
            guards.push(task.await.expect("no panic")?);
        }
    }
    let before = worked::by_process();
    tokio::time::sleep(WATCH).await;
    let part = (worked::by_process() - before).as_secs_f64() / WATCH.as_secs_f64();
    guards.iter().try_for_each(leasehold::Guard::check)?;
    println!(
        "| sqlite: {LEASES} leases kept, ttl 30 s | {:.2} % of a core | 2 % | {:.2} |",
        part * 100.0,
        part / 0.02
    );
    Ok(())
}

async fn pairs(mutex: &Mutex, count: u32) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..count {
        mutex.lock().await?.release().await?;
    }
    Ok(start.elapsed() / count)
}

fn time(count: u32, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..count).for_each(|_| work());
    start.elapsed() / count
}

fn best(samples: Vec<Duration>) -> Duration {
    samples.into_iter().min().unwrap_or_default()
}

fn row(what: &str, measured: Duration, other: &str, bound: Duration) {
    let ratio = measured.as_secs_f64() / bound.as_secs_f64();
    println!("| {what} | {measured:?} | {other}: {bound:?} | {ratio:.2} |");
}

/// The least a lock in SQLite can cost: a row written and deleted, durable
/// against a crash of the process.
struct Bare(Connection);

impl Bare {
    fn open(folder: &TempDir) -> Self {
        let db = Connection::open(folder.path().join("bare.db")).expect("a database");
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \
             CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, owner TEXT) WITHOUT ROWID;",
        )
        .expect("a table");
        Self(db)
    }

    fn pair(&mut self) {
        for sql in ["INSERT INTO locks VALUES ('m', 'o')", "DELETE FROM locks WHERE name = 'm'"] {
            self.0
                .prepare_cached("BEGIN IMMEDIATE")
                .and_then(|mut s| s.execute([]))
                .expect("begin");
            self.0.prepare_cached(sql).and_then(|mut s| s.execute([])).expect("a write");
            self.0.prepare_cached("COMMIT").and_then(|mut s| s.execute([])).expect("commit");
        }
    }
}
