//! What it costs to do something once, beside bare requests of the same driver
//! on the same server, as ratios within one run. `cargo xtask bench --once` runs
//! it.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

mod by_hand;
mod memory;

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold::once::{Fingerprint, InTransaction, Once, TokenKeys};
use leasehold::sql::{Dialect, OnceTable};
use leasehold_testkit::Server;
use leasehold_testkit::server::{Plan, tell};
use tokio_postgres::NoTls;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 5;
const TASKS: u32 = 64;

fn main() -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(report())
}

async fn report() -> Outcome {
    // All of it, or one part.
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = |name: &str| part.as_ref().is_none_or(|part| part == name);
    println!("| work | time | compared with | time | ratio |\n|---|---|---|---|---|");
    if wanted("local") {
        fingerprints()?;
        tokens()?;
    }
    if wanted("memory") {
        memory::report().await?;
    }
    if wanted("redis") {
        redis().await?;
    }
    if wanted("postgres") {
        postgres().await?;
    }
    Ok(())
}

fn row(work: &str, ours: Duration, other: &str, theirs: Duration) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("| {work} | {ours:.2?} | {other} | {theirs:.2?} | {ratio:.2} |");
}

/// The best of several rounds, of two that take turns.
async fn beside<A, B>(
    mut ours: impl FnMut(u32) -> A,
    mut theirs: impl FnMut(u32) -> B,
) -> Outcome<(Duration, Duration)>
where
    A: Future<Output = Outcome<Duration>>,
    B: Future<Output = Outcome<Duration>>,
{
    let mut best = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        best = (best.0.min(ours(round).await?), best.1.min(theirs(round).await?));
    }
    Ok(best)
}

/// The time of one, over so many.
fn each(count: u32, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..count).for_each(|_| work());
    start.elapsed() / count
}

fn best_of(count: u32, mut work: impl FnMut()) -> Duration {
    (0..ROUNDS).map(|_| each(count, &mut work)).min().unwrap_or_default()
}

fn fingerprints() -> Outcome {
    let items: Vec<_> = (0..40)
        .map(|n| serde_json::json!({"id": n, "name": format!("thing {n}"), "price": 9.5, "tags": ["a", "b"]}))
        .collect();
    let json = serde_json::to_vec(&serde_json::json!({"items": items, "to": "ann"}))?;
    let ours = best_of(2000, || drop(black_box(Fingerprint::of_json(&json))));
    let theirs =
        best_of(2000, || drop(black_box(serde_json::from_slice::<serde_json::Value>(&json))));
    row(
        &format!("fingerprint of {} bytes of JSON", json.len()),
        ours,
        "serde_json parses it",
        theirs,
    );
    let bytes = vec![7; 1 << 20];
    let time = best_of(50, || {
        black_box(Fingerprint::of_bytes(&bytes));
    });
    let rate = 1.048_576 / time.as_secs_f64() / 1000.0;
    println!("| fingerprint of 1 MiB of bytes | {time:.2?} | {rate:.2} GB/s | | |");
    Ok(())
}

fn tokens() -> Outcome {
    let tokens = Locks::memory().once("t").tokens(TokenKeys::new(1, &[7; 32])?);
    let time = best_of(20_000, || drop(black_box(tokens.issue("ann", Duration::from_secs(60)))));
    row("token: issue", time, "2 µs", Duration::from_micros(2));
    Ok(())
}

async fn one(once: &Once, key: String) -> Outcome {
    let work = async |_| Ok::<_, String>("a small outcome, as most are");
    once.run(key, Fingerprint::none(), work).await?;
    Ok(())
}

/// The time of one, when many tasks do `count` each.
async fn crowd<F>(tasks: u32, count: u32, work: impl Fn(u32, u32) -> F) -> Outcome<Duration>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let start = Instant::now();
    let mut running = Vec::new();
    for task in 0..tasks {
        let steps: Vec<_> = (0..count).map(|n| work(task, n)).collect();
        running.push(tokio::spawn(async move {
            for step in steps {
                step.await?;
            }
            Outcome::Ok(())
        }));
    }
    for task in running {
        task.await??;
    }
    Ok(start.elapsed() / (tasks * count))
}

async fn redis() -> Outcome {
    const COUNT: u32 = 100;
    let server = Server::redis()?;
    let once = leasehold::open(server.url()).await?.once("r");
    let other = leasehold::open(server.url()).await?;
    let bare = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let set = |round: u32, task: u32, n: u32| {
        let mut bare = bare.clone();
        async move {
            for value in ["claimed", "a small outcome, as most are"] {
                let key = format!("bare {round} {task} {n}");
                let mut set = redis::cmd("SET");
                set.arg(key).arg(value).arg("PX").arg(60_000).query_async::<()>(&mut bare).await?;
            }
            Ok(())
        }
    };
    let fresh = |round: u32, task: u32, n: u32| {
        let once = once.clone();
        async move { one(&once, format!("{round} {task} {n}")).await }
    };
    for tasks in [1, TASKS] {
        let (ours, theirs) = beside(
            |round| crowd(tasks, COUNT, move |task, n| fresh(round + 100 * tasks, task, n)),
            |round| crowd(tasks, COUNT, move |task, n| set(round, task, n)),
        )
        .await?;
        row(&format!("redis: fresh, {tasks} tasks"), ours, "two bare SETs", theirs);
    }
    let by_hand = |tasks: u32, round: u32, task: u32, n: u32| {
        by_hand::least(bare.clone(), format!("by hand {tasks} {round} {task} {n}"))
    };
    for tasks in [1, TASKS] {
        let (ours, theirs) = beside(
            |round| crowd(tasks, COUNT, move |task, n| fresh(round + 200 * tasks, task, n)),
            |round| crowd(tasks, COUNT, move |task, n| by_hand(tasks, round, task, n)),
        )
        .await?;
        row(&format!("redis: fresh, {tasks} tasks"), ours, "the least by hand", theirs);
    }
    let shared = by_hand::Shared::new(&bare);
    let (ours, theirs) = beside(
        |round| crowd(TASKS, COUNT, move |task, n| fresh(round + 300 * TASKS, task, n)),
        |round| {
            let shared = shared.clone();
            crowd(TASKS, COUNT, move |task, n| {
                shared.clone().run(format!("shared {round} {task} {n}"))
            })
        },
    )
    .await?;
    row("redis: fresh, 64 tasks", ours, "one key, in shared calls, by hand", theirs);
    let get = |task: u32, n: u32| {
        let mut bare = bare.clone();
        async move {
            let key = format!("bare 0 {task} {n}");
            let _: Option<String> = redis::cmd("GET").arg(key).query_async(&mut bare).await?;
            Ok(())
        }
    };
    let again = |once: &Once, task: u32, n: u32| {
        let once = once.clone();
        // Few enough keys for the memory of what was seen.
        async move { one(&once, format!("{} {} {}", 100 * TASKS, task % 8, n)).await }
    };
    for tasks in [1, TASKS] {
        let (ours, theirs) = beside(
            |_| crowd(tasks, COUNT, |task, n| again(&once, task, n)),
            |_| crowd(tasks, COUNT, get),
        )
        .await?;
        row(&format!("redis: replay, {tasks} tasks"), ours, "a bare GET", theirs);
    }
    // A process that has not seen the key has to claim it, and gives it back
    // without anyone waiting.
    let (ours, theirs) = beside(
        |_| {
            let fresh = other.once("r");
            crowd(TASKS, COUNT, move |task, n| {
                let fresh = fresh.clone();
                async move { one(&fresh, format!("{} {task} {n}", 100 * TASKS)).await }
            })
        },
        |_| crowd(TASKS, COUNT, get),
    )
    .await?;
    row("redis: replay in another process, 64 tasks", ours, "a bare GET", theirs);
    Ok(())
}

/// With the disk: the commit is what costs. Disks of a network take longer than
/// those of a test machine.
async fn postgres() -> Outcome {
    for (disk, delay) in [("its own disk", "0"), ("a commit of 2 ms more", "2000")] {
        let delay = format!("commit_delay={delay}");
        let args = ["-c", "fsync=on", "-c", &delay, "-c", "commit_siblings=0"];
        let server = Server::start(Plan::postgres().args(args))?;
        tell(&server.url(), "CREATE TABLE effects (id BIGSERIAL PRIMARY KEY, what TEXT NOT NULL)")?;
        for statement in OnceTable::default().schema(Dialect::Postgres).split(";\n") {
            tell(&server.url(), statement)?;
        }
        for clients in [1, 8] {
            effects(&server.url(), clients, disk).await?;
        }
    }
    Ok(())
}

/// All ways take turns, so that a disk that is slow for a while is slow for all;
/// the medians are compared.
async fn effects(url: &str, clients: u32, disk: &str) -> Outcome {
    const TURNS: u32 = 21;
    let count = if clients == 1 { 40 } else { 20 };
    let mut times = WAYS.map(|_| Vec::new());
    for round in 0..TURNS {
        for (times, (_, way)) in times.iter_mut().zip(WAYS) {
            times.push(paying(url, clients, count, way, round).await?);
        }
    }
    let [bare, three, ours @ ..] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    for (ours, (name, _)) in ours.into_iter().zip(&WAYS[2..]) {
        let what = format!("postgres, {disk}, {clients} clients: {name}");
        row(&what, ours, "the bare effect", bare);
        row(&what, ours, "claim, effect, complete", three);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Way {
    Bare,
    Three,
    Own,
    Whole,
}

const WAYS: [(&str, Way); 4] =
    [("", Way::Bare), ("", Way::Three), ("`in_transaction`", Way::Own), ("`transact`", Way::Whole)];

const EFFECT: &str = "INSERT INTO effects (what) VALUES ('paid')";

async fn paying(url: &str, clients: u32, count: u32, way: Way, round: u32) -> Outcome<Duration> {
    let mut connected = Vec::new();
    for _ in 0..clients {
        let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move { drop(driver.await) });
        connected.push(client);
    }
    // What a connection prepares it prepares once, and PostgreSQL plans it anew for
    // the first five times.
    let once = Locks::memory().once("pay");
    let mut ready = Vec::new();
    for (n, mut client) in connected.into_iter().enumerate() {
        let effect = client.prepare(EFFECT).await?;
        for m in 0..6 {
            let key = format!("{clients} {n} {round} first {m}");
            pay(&mut client, &once, &effect, way, key).await?;
        }
        ready.push((client, effect));
    }
    let start = Instant::now();
    let mut running = Vec::new();
    for (n, (mut client, effect)) in ready.into_iter().enumerate() {
        let once = once.clone();
        running.push(tokio::spawn(async move {
            for m in 0..count {
                let key = format!("{clients} {n} {round} {m}");
                pay(&mut client, &once, &effect, way, key).await?;
            }
            Outcome::Ok(())
        }));
    }
    for task in running {
        task.await??;
    }
    Ok(start.elapsed() / (clients * count))
}

async fn pay(
    client: &mut tokio_postgres::Client,
    once: &Once,
    effect: &tokio_postgres::Statement,
    way: Way,
    key: String,
) -> Outcome {
    let work = async |tx: &tokio_postgres::Client| {
        tx.execute(effect, &[]).await?;
        Ok::<_, tokio_postgres::Error>("paid")
    };
    let about = Fingerprint::none();
    match way {
        Way::Bare => {
            let tx = client.transaction().await?;
            tx.execute(effect, &[]).await?;
            tx.commit().await?;
        }
        Way::Own => {
            let mut tx = client.transaction().await?;
            let taken = once.in_transaction(&mut tx, format!("own {key}"), about).await?;
            let InTransaction::First(first) = taken else { return Err("done before".into()) };
            tx.execute(effect, &[]).await?;
            first.done(&mut tx, "paid").await?;
            tx.commit().await?;
        }
        Way::Whole => {
            assert!(!once.transact(client, format!("whole {key}"), about, work).await?.replayed);
        }
        // What most libraries do: three commits.
        Way::Three => {
            let key = format!("three {key}");
            let claim = "INSERT INTO leasehold_once VALUES ($1, 'r', 'a', 0, 0)";
            client.execute(claim, &[&key]).await?;
            client.execute(effect, &[]).await?;
            let complete = "UPDATE leasehold_once SET outcome = 'paid' WHERE name = $1";
            client.execute(complete, &[&key]).await?;
        }
    }
    Ok(())
}
