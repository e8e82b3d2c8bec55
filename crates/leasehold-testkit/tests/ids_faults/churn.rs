//! Workers that come and go: processes that open and close generators all the
//! time, and are killed in between. No two tenancies of a number may share a
//! millisecond, and nobody may be refused.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::blocking;
use leasehold::ids::Layout;
use leasehold_testkit::FaultProxy;
use leasehold_testkit::place::{Place, Tested};
use serde::{Deserialize, Serialize};

use super::{is_long, say};

/// Set, to its orders, in a copy of this program.
const ORDERS: &str = "LEASEHOLD_IDS_CHURN";
const NAME: &str = "churn::as_a_process_that_comes_and_goes";
const TTL: Duration = Duration::from_secs(3);
const SEQUENCE: u32 = 12;
/// How long a round may take in all.
const PATIENCE: Duration = Duration::from_secs(900);

/// How much is done: cycles, kills, and the bits of a worker number.
struct Size {
    cycles: usize,
    kills: usize,
    bits: u32,
    processes: usize,
}

impl Size {
    fn of_this_run() -> Self {
        match is_long() {
            true => Self { cycles: 5_000, kills: 200, bits: 10, processes: 6 },
            // Few numbers, so that each has several holders.
            false => Self { cycles: 60, kills: 4, bits: 4, processes: 3 },
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Orders {
    url: String,
    /// One line for each thing that happens.
    log: PathBuf,
    /// It ends when this is there.
    end: PathBuf,
    /// A word that no other process has.
    who: String,
    bits: u32,
}

#[test]
fn as_a_process_that_comes_and_goes() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Orders = serde_json::from_str(&orders).expect("orders");
    let log = File::options().create(true).append(true).open(&orders.log).expect("a log");
    for cycle in 0.. {
        if orders.end.exists() {
            return;
        }
        if let Err(error) = cycle_of(&orders, cycle, &log) {
            // One write for each line: processes share the file.
            let _ = (&log).write_all(format!("refused {error:?}\n").as_bytes());
        }
    }
}

/// From the first connection to the last.
fn cycle_of(orders: &Orders, cycle: u32, mut log: &File) -> leasehold::Result<()> {
    let mut note = |line: String| log.write_all(line.as_bytes()).expect("written");
    let locks = blocking::open(&orders.url)?;
    let layout = Layout::new(41, orders.bits, SEQUENCE);
    let ids = locks.ids("churn").snowflake().layout(layout).ttl(TTL).blocking_open()?;
    let tenancy = format!("{}-{cycle} {}", orders.who, ids.workers()[0]);
    for _ in 0..3 {
        let made = ids.blocking_batch(20)?;
        let [first, last] = [made[0], made[19]].map(|id| id >> (orders.bits + SEQUENCE));
        note(format!("made {tenancy} {first} {last}\n"));
        // Long enough to be killed in the middle.
        sleep(Duration::from_millis(10));
    }
    ids.blocking_close()?;
    note(format!("closed {tenancy}\n"));
    locks.shutdown(TTL)
}

/// One holder of a number, and the milliseconds of its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenancy {
    worker: u32,
    first: u64,
    last: u64,
    closed: bool,
}

/// What a log says; a torn line says nothing.
fn tenancies(log: &str) -> Vec<Tenancy> {
    let mut all: HashMap<&str, Tenancy> = HashMap::new();
    for line in log.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["made", who, worker, first, last] => {
                let number = |text: &str| text.parse::<u64>().expect("a number");
                let (first, last) = (number(first), number(last));
                let worker = worker.parse().expect("a number");
                let new = Tenancy { worker, first, last, closed: false };
                let known = all.entry(who).or_insert(new);
                (known.first, known.last) = (known.first.min(first), known.last.max(last));
            }
            ["closed", who, _] => {
                if let Some(known) = all.get_mut(who) {
                    known.closed = true;
                }
            }
            _ => {}
        }
    }
    all.into_values().collect()
}

/// Neighbours of one number that share a millisecond.
fn overlaps(mut all: Vec<Tenancy>) -> Vec<(Tenancy, Tenancy)> {
    all.sort_by_key(|it| (it.worker, it.first));
    let pairs = all.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.filter(|(a, b)| a.worker == b.worker && a.last >= b.first).collect()
}

#[test]
fn two_holders_of_a_number_in_one_millisecond_are_found_out() {
    let log = "made a-0 7 10 20\nmade b-0 7 21 30\nmade a-0 7 18 21\nmade c-0 8 10 30\nclosed a-0 7\nmade d";
    let found = overlaps(tenancies(log));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0.closed && !found[0].1.closed);
    assert!(overlaps(tenancies(&log.replace("18 21", "18 20"))).is_empty());
}

struct Churner {
    child: Child,
    who: String,
}

impl Churner {
    fn start(orders: &Orders) -> Tested<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", NAME]).env(ORDERS, serde_json::to_string(orders)?);
        let child = command.stdout(Stdio::null()).spawn()?;
        Ok(Self { child, who: orders.who.clone() })
    }

    /// Whether it has a number now, as far as its lines tell.
    fn is_at_work(&self, log: &str) -> bool {
        let mine = format!(" {}-", self.who);
        let last = log.lines().rev().find(|line| line.contains(&mine));
        last.is_some_and(|line| line.starts_with("made"))
    }
}

impl Drop for Churner {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn workers_that_come_go_and_die_never_share_a_millisecond() -> Tested {
    Place::each(churned)
}

/// A busy machine is no refusal; a file has no time-out.
fn patient(place: &Place) -> String {
    if place.server().is_some() { place.url_with("timeout=20s") } else { place.url().into() }
}

fn churned(place: &Place) -> Tested {
    let size = Size::of_this_run();
    let (log, end) = (place.scratch("churn.log"), place.scratch("end"));
    let orders = |who: String| Orders {
        url: patient(place),
        log: log.clone(),
        end: end.clone(),
        who,
        bits: size.bits,
    };
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let cycles = || {
        let lines = lines();
        let refused = lines.lines().find(|line| line.starts_with("refused"));
        assert_eq!(refused, None, "{}", place.engine());
        lines.lines().filter(|line| line.starts_with("closed")).count()
    };
    let mut running = Vec::new();
    for number in 0..size.processes {
        running.push(Churner::start(&orders(format!("p{number}")))?);
    }
    let start = Instant::now();
    for kill in 0..size.kills {
        until(start, || cycles() >= kill * size.cycles / (2 * size.kills))?;
        let one = &mut running[kill % size.processes];
        until(start, || one.is_at_work(&lines()))?;
        *one = Churner::start(&orders(format!("k{kill}")))?;
    }
    until(start, || cycles() >= size.cycles)?;
    File::create(&end)?;
    for mut churner in running {
        churner.child.wait()?;
    }
    judge(place.engine(), &size, &lines())
}

fn until(start: Instant, done: impl Fn() -> bool) -> Tested {
    while !done() {
        if start.elapsed() > PATIENCE {
            return Err("they do not get on".into());
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn judge(engine: &str, size: &Size, log: &str) -> Tested {
    let refused: Vec<&str> = log.lines().filter(|line| line.starts_with("refused")).collect();
    let all = tenancies(log);
    let (closed, cut): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.closed);
    let overlaps = overlaps(all.clone());
    say(&format!(
        "{engine}: {} tenancies came and went, {} were cut off by {} kills; {} overlaps, {} refused",
        closed.len(),
        cut.len(),
        size.kills,
        overlaps.len(),
        refused.len()
    ));
    assert!(overlaps.is_empty(), "{engine}: {overlaps:?}");
    assert!(refused.is_empty(), "{engine}: {refused:?}");
    assert!(!cut.is_empty(), "{engine}: nobody was killed in the middle");
    Ok(())
}

/// What goes over the wire for one number, in pieces: of a database and of etcd,
/// a request has several.
const PIECES: [(&str, u64); 5] =
    [("redis", 2), ("zookeeper", 4), ("postgres", 8), ("mysql", 8), ("etcd", 12)];

#[test]
fn a_number_costs_few_requests() -> Tested {
    Place::each(counted)
}

fn counted(place: &Place) -> Tested {
    let Some(server) = place.server() else { return Ok(()) };
    let proxy = FaultProxy::to(server.addr())?;
    let locks = blocking::open(server.url_via(proxy.addr()))?;
    let mut counts = Vec::new();
    for _ in 0..20 {
        // One number, which has had a holder.
        let layout = Layout::new(41, 0, SEQUENCE);
        let before = proxy.counts().requests.pieces;
        let ids = locks.ids("churn").snowflake().layout(layout).blocking_open()?;
        counts.push(proxy.counts().requests.pieces - before);
        ids.blocking_close()?;
    }
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    say(&format!("{}: {median} pieces for a number", place.engine()));
    let known = PIECES.iter().find(|(engine, _)| *engine == place.engine());
    assert!(known.is_some_and(|(_, most)| median <= *most), "{}: {counts:?}", place.engine());
    Ok(())
}
