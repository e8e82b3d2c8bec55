//! What it costs to do something once, beside `idempotent`, a crate that does the
//! same: rounds of both take turns on one machine and one Redis, and the median
//! counts. `cargo xtask bench --once` builds the peer and runs this.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold::once::{Fingerprint, Once};
use leasehold_testkit::Server;
use leasehold_testkit::worked;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 7;
const OUTCOME: &str = "a small outcome, as most are";

fn main() -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let server = Server::redis()?;
    let mut peer = Peer::start(&server.url())?;
    let memory = Locks::memory().once("peer");
    let redis = runtime.block_on(async { leasehold::open(server.url()).await })?.once("peer");
    println!("| work | time | CPU | idempotent | CPU | ratio | CPU ratio |");
    println!("|---|---|---|---|---|---|---|");
    for (store, once, tasks, count) in
        [("memory", &memory, 1, 20_000), ("redis", &redis, 1, 200), ("redis", &redis, 64, 100)]
    {
        let fresh = Row { store, tasks, count, again: false };
        let again = Row { again: true, ..fresh };
        for row in [fresh, again] {
            let ours = |prefix: &str| runtime.block_on(crowd(once, tasks, count, prefix));
            row.measure(&mut peer, ours)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Row<'a> {
    store: &'a str,
    tasks: u32,
    count: u32,
    /// The keys were done before.
    again: bool,
}

impl Row<'_> {
    fn measure(&self, peer: &mut Peer, ours: impl Fn(&str) -> Outcome<Cost>) -> Outcome {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let round = if self.again { 0 } else { round };
            let prefix = format!("{}-{}-{round}", self.store, self.tasks);
            mine.push(ours(&prefix)?);
            theirs.push(peer.ask(self, &prefix)?);
        }
        self.print(Cost::median(&mine), Cost::median(&theirs));
        Ok(())
    }

    fn print(&self, mine: Cost, theirs: Cost) {
        let what = if self.again { "replay" } else { "fresh" };
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!(
            "| {}, {} tasks: {what} | {:.2?} | {:.2?} | {:.2?} | {:.2?} | {:.2} | {:.2} |",
            self.store,
            self.tasks,
            mine.wall,
            mine.cpu,
            theirs.wall,
            theirs.cpu,
            ratio(mine.wall, theirs.wall),
            ratio(mine.cpu, theirs.cpu)
        );
    }
}

/// What one key costs; the CPU is that of the client alone.
#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

impl Cost {
    fn median(all: &[Self]) -> Self {
        let middle = |of: fn(&Self) -> Duration| {
            let mut sorted: Vec<Duration> = all.iter().map(of).collect();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        };
        Self { wall: middle(|cost| cost.wall), cpu: middle(|cost| cost.cpu) }
    }
}

async fn crowd(once: &Once, tasks: u32, count: u32, prefix: &str) -> Outcome<Cost> {
    let (start, before) = (Instant::now(), worked::by_process());
    let each = |task| {
        let (once, prefix) = (once.clone(), prefix.to_owned());
        tokio::spawn(async move { some(&once, task, count, &prefix).await })
    };
    for task in (0..tasks).map(each).collect::<Vec<_>>() {
        task.await??;
    }
    let each = tasks * count;
    Ok(Cost { wall: start.elapsed() / each, cpu: (worked::by_process() - before) / each })
}

async fn some(once: &Once, task: u32, count: u32, prefix: &str) -> Outcome {
    for n in 0..count {
        let about = Fingerprint::of_bytes(b"POST /pay{}");
        let work = async |_| Ok::<_, String>(OUTCOME);
        once.run(format!("{prefix}-{task}-{n}"), about, work).await?;
    }
    Ok(())
}

/// `interop/idempotent`, as a process.
struct Peer {
    child: Child,
    hears: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Peer {
    fn start(url: &str) -> Outcome<Self> {
        let program = "../../target/interop/idempotent/release/idempotent-peer";
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(program));
        let spawned = command.arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|why| format!("`cargo xtask bench --once`: {why}"))?;
        let hears = child.stdin.take().ok_or("no input")?;
        let says = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, hears, says })
    }

    fn ask(&mut self, row: &Row<'_>, prefix: &str) -> Outcome<Cost> {
        writeln!(self.hears, "{} {} {} {prefix}", row.store, row.tasks, row.count)?;
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        let (wall, cpu) = line.trim().split_once(' ').ok_or("the peer has ended")?;
        let span = |text: &str| text.parse().map(Duration::from_nanos);
        Ok(Cost { wall: span(wall)?, cpu: span(cpu)? })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
