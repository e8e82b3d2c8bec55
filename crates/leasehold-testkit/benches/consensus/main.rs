//! What a lock costs on ZooKeeper and etcd: beside bare requests of the same
//! kind, beside Curator and Go's mutex, on the same servers in one run.
//! `cargo xtask bench --consensus` runs it.
//!
//! Rounds take turns, so that a slow minute of the machine hits all; of the
//! medians of all rounds the best counts.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

mod etcd;
mod zookeeper;

use std::error::Error;
use std::time::{Duration, Instant};

use leasehold::{Locks, Mutex};
use leasehold_testkit::peer::{Peer, Tongue};
use leasehold_testkit::server::{Ensemble, Plan};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 5;
const TASKS: u32 = 64;
/// Pairs of one task in a round, and of each of many.
const ALONE: u32 = 200;
const EACH: u32 = 20;
const HAND_OVERS: u32 = 60;
/// How long a peer is measured in one round.
const SPAN: Duration = Duration::from_millis(1000);

fn main() -> Outcome<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(report())
}

async fn report() -> Outcome<()> {
    println!("| servers | work | time | bare | ratio |\n|---|---|---|---|---|");
    for count in [1, 3, 5] {
        // As it is run: every change is on disk before it is answered.
        let plan = Plan::zookeeper().args(["forceSync=yes"]);
        let ensemble = Ensemble::start(&plan, count)?;
        compare(&format!("zookeeper, {count}"), &ensemble, Kind::Zookeeper).await?;
    }
    for count in [1, 3] {
        let ensemble = Ensemble::etcd(count)?;
        compare(&format!("etcd, {count}"), &ensemble, Kind::Etcd).await?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Zookeeper,
    Etcd,
}

impl Kind {
    /// The cheapest lock there can be: make a node or a key, remove it.
    async fn bare(self, hosts: &str) -> Outcome<Duration> {
        let host = hosts.split(',').next().unwrap_or_default().to_owned();
        match self {
            Self::Zookeeper => {
                tokio::task::spawn_blocking(move || zookeeper::pairs(&host, ALONE)).await?
            }
            Self::Etcd => etcd::pairs(host, ALONE).await,
        }
    }

    const fn peer(self) -> (Tongue, &'static str) {
        match self {
            Self::Zookeeper => (Tongue::Curator, "Curator's InterProcessMutex"),
            Self::Etcd => (Tongue::EtcdGo, "Go's concurrency.Mutex"),
        }
    }
}

async fn compare(servers: &str, ensemble: &Ensemble, kind: Kind) -> Outcome<()> {
    let (locks, hosts) = (leasehold::open(ensemble.url()).await?, ensemble.hosts());
    let (tongue, label) = kind.peer();
    let addresses: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    let mut peer = Peer::start(tongue, &addresses);
    let (mut bare, mut ours, mut crowd, mut theirs) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        bare.push(kind.bare(&hosts).await?);
        ours.push(pairs(&locks.mutex("m"), ALONE).await?);
        crowd.push(many(&locks).await?);
        theirs.extend(peer.as_mut().ok().and_then(|peer| peer.bench("mutex", 1, SPAN).ok()));
    }
    let bare = best(bare);
    row(servers, "lock + release, one task", best(ours), bare);
    match theirs.iter().map(|it| Duration::from_nanos(it.p50_ns)).min() {
        Some(time) => row(servers, &format!("{label}, one task, median"), time, bare),
        None => {
            println!("| {servers} | {label}: not here; `cargo xtask interop` builds it | | | |")
        }
    }
    row(servers, &format!("a pair of {TASKS} tasks"), best(crowd), bare);
    let other = leasehold::open(ensemble.url()).await?;
    row(servers, "hand-over between two clients", hand_over(&locks, &other).await?, bare / 2);
    Ok(())
}

async fn pairs(mutex: &Mutex, count: u32) -> Outcome<Duration> {
    let mut samples = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        mutex.lock().await?.release().await?;
        samples.push(start.elapsed());
    }
    Ok(median(samples))
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// What a pair costs when many tasks make some, each on a name of its own.
async fn many(locks: &Locks) -> Outcome<Duration> {
    let start = Instant::now();
    let task = |at: u32| {
        let mutex = locks.mutex(format!("t{at}"));
        tokio::spawn(async move { pairs(&mutex, EACH).await.map(drop) })
    };
    for task in (0..TASKS).map(task).collect::<Vec<_>>() {
        task.await??;
    }
    Ok(start.elapsed() / (TASKS * EACH))
}

/// From the release that leaves to the grant that is seen.
async fn hand_over(one: &Locks, two: &Locks) -> Outcome<Duration> {
    let mut samples = Vec::new();
    for _ in 0..HAND_OVERS {
        let held = one.mutex("handed").lock().await?;
        let waiting = two.mutex("handed");
        let waiter = tokio::spawn(async move { (waiting.lock().await, Instant::now()) });
        while one.status("handed").await?.waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let start = Instant::now();
        held.release().await?;
        let (guard, seen) = waiter.await?;
        samples.push(seen - start);
        guard?.release().await?;
    }
    Ok(median(samples))
}

fn best(samples: Vec<Duration>) -> Duration {
    samples.into_iter().min().unwrap_or_default()
}

fn row(servers: &str, what: &str, time: Duration, bare: Duration) {
    let ratio = time.as_secs_f64() / bare.as_secs_f64();
    let (time, bare) = (time.as_micros(), bare.as_micros());
    println!("| {servers} | {what} | {time} µs | {bare} µs | {ratio:.2} |");
}
