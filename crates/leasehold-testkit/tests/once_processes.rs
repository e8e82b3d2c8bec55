//! Work that is done once, by processes that race, die and stand still.
//!
//! The processes are copies of this program. Each says on its output what it
//! has come to, in lines that begin with `once: `.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::print_stdout, reason = "lines are how a process talks to the test")]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use leasehold::once::{Fingerprint, OnBusy, OnCrash, Once, OnceError, Refusal, Turn};
use leasehold_testkit::Register;
use leasehold_testkit::place::{Place, Tested};
use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// Set, to its orders, in the copies of this program that run.
const ORDERS: &str = "LEASEHOLD_KIT_ONCE";
const NAME: &str = "a_process_that_runs_as_ordered";
/// For leases that nobody is left to release; no engine takes much less.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(120);

/// Where a process ends itself, as `kill -9` would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Point {
    Never,
    BeforeClaim,
    AfterClaim,
    MidEffect,
    WhileRenewing,
    AfterEffect,
    AfterRecord,
}

const POINTS: [Point; 6] = [
    Point::BeforeClaim,
    Point::AfterClaim,
    Point::MidEffect,
    Point::WhileRenewing,
    Point::AfterEffect,
    Point::AfterRecord,
];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Orders {
    url: String,
    key: String,
    lease: Duration,
    at_most_once: bool,
    tasks: u32,
    die: Point,
    /// Waits for a line before its effect.
    told: bool,
    /// Where effects are written, a line each.
    effects: PathBuf,
    /// A resource that refuses late writers.
    register: PathBuf,
}

impl Orders {
    fn once(&self, locks: &leasehold::Locks) -> Once {
        let crash = if self.at_most_once { OnCrash::Unknown } else { OnCrash::Rerun };
        locks.once("kit").lease(self.lease).on_crash(crash).on_busy(OnBusy::Wait(LONG))
    }

    fn reach(&self, point: Point) {
        if self.die == point {
            let _ = kill_process(getpid(), Signal::KILL);
            std::thread::sleep(LONG);
        }
    }

    /// A line of the effect: `fence` begins it, the end of the line ends it.
    fn write(&self, text: &str) -> std::io::Result<()> {
        OpenOptions::new().append(true).create(true).open(&self.effects)?.write_all(text.as_bytes())
    }
}

/// Not a test of its own: what the others start.
#[test]
fn a_process_that_runs_as_ordered() {
    let Ok(orders) = env::var(ORDERS) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(obey(orders));
}

async fn obey(orders: Orders) {
    let locks = leasehold::open(&orders.url).await.unwrap();
    orders.reach(Point::BeforeClaim);
    let once = orders.once(&locks);
    let task = |_| {
        let (once, orders) = (once.clone(), orders.clone());
        tokio::spawn(async move { one(&once, &orders).await })
    };
    for task in (0..orders.tasks).map(task).collect::<Vec<_>>() {
        println!("once: {}", task.await.unwrap());
    }
}

async fn one(once: &Once, orders: &Orders) -> String {
    let work = async |turn: Turn| work(orders, turn).await.map_err(|error| error.to_string());
    let done = once.run(&*orders.key, Fingerprint::of_bytes(b"x"), work).await;
    orders.reach(Point::AfterRecord);
    match done {
        Ok(done) => {
            let how = if done.replayed { "replayed" } else { "ran" };
            format!("{how} {}", String::from_utf8_lossy(&done.outcome))
        }
        Err(OnceError::Refused(Refusal::Unknown { .. })) => "unknown".into(),
        Err(OnceError::Refused(Refusal::Engine(error)) | OnceError::CutOff(error))
            if error.is_lost() =>
        {
            "lost".into()
        }
        // A server that ends sessions also hangs up on who had one.
        Err(OnceError::Unrecorded { .. }) => "lost".into(),
        Err(error) => format!("error {error}"),
    }
}

async fn work(orders: &Orders, turn: Turn) -> std::io::Result<String> {
    orders.reach(Point::AfterClaim);
    if orders.told {
        println!("once: begun {}", turn.fence());
        // Blocks on purpose: that is how a process stands still.
        tokio::task::block_in_place(|| std::io::stdin().read_line(&mut String::new()))?;
        let accepted = Register::open(&orders.register)?.write(turn.fence(), 0, 1)?;
        println!("once: {}", if accepted { "accepted" } else { "refused" });
    }
    orders.write(&turn.fence().to_string())?;
    orders.reach(Point::MidEffect);
    if orders.die == Point::WhileRenewing {
        tokio::time::sleep(orders.lease * 2).await;
        turn.check().map_err(std::io::Error::other)?;
        orders.reach(Point::WhileRenewing);
    }
    orders.write("\n")?;
    orders.reach(Point::AfterEffect);
    Ok(format!("outcome of {} took over {}", turn.fence(), turn.took_over()))
}

/// A copy of this program.
struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: Option<ChildStdin>,
}

impl Process {
    fn start(orders: &Orders) -> Tested<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args([NAME, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ORDERS, serde_json::to_string(orders)?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let says = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { hears: child.stdin.take(), child, says })
    }

    /// The next line, or nothing at its end.
    fn line(&mut self) -> Tested<Option<String>> {
        let mut line = String::new();
        while self.says.read_line(&mut line)? > 0 {
            if let Some((_, said)) = line.trim_end().split_once("once: ") {
                return Ok(Some(said.to_owned()));
            }
            line.clear();
        }
        Ok(None)
    }

    fn signal(&self, signal: Signal) -> Tested {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no pid")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn orders(place: &Place, key: &str) -> Orders {
    let file = |kind: &str| place.scratch(format!("{kind}-{key}"));
    Orders {
        url: place.url().into(),
        key: key.into(),
        lease: SHORT,
        at_most_once: false,
        tasks: 1,
        die: Point::Never,
        told: false,
        effects: file("effects"),
        register: file("register"),
    }
}

/// Whole effects: a line that was begun and not ended is none.
fn effects(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').filter(|it| it.ends_with('\n')).map(str::to_owned).collect()
}

/// How often each fault is made: once, or as often as `LEASEHOLD_ROUNDS` says.
fn rounds() -> u32 {
    env::var("LEASEHOLD_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Makes every round, a few side by side: they mostly wait for leases to end.
fn each_round(place: &Place, what: &str, round: impl Fn(u32) -> Tested + Sync) -> Tested {
    const LANES: u32 = 8;
    let lane = |first: u32| {
        let mut mine = (first..rounds()).step_by(LANES as usize);
        mine.try_for_each(&round).map_err(|why| why.to_string())
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|n| scope.spawn(move || lane(n))).collect();
        lanes.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for lane in ended {
        lane.map_err(|_| "see above")??;
    }
    // For whoever wants to see it: `--nocapture`.
    let _ = writeln!(std::io::stderr(), "{}: {} rounds of {what}", place.engine(), rounds());
    Ok(())
}

#[test]
fn of_a_thousand_racers_in_four_processes_one_runs_and_all_say_the_same() -> Tested {
    Place::each(race)
}

fn race(place: &Place) -> Tested {
    let orders = Orders { tasks: 250, lease: LONG, ..orders(place, "race") };
    let racers = (0..4).map(|_| Process::start(&orders)).collect::<Tested<Vec<_>>>()?;
    let (mut ran, mut outcomes) = (0, Vec::new());
    for mut racer in racers {
        while let Some(line) = racer.line()? {
            let (how, outcome) = line.split_once(' ').ok_or("an outcome")?;
            ran += u32::from(how == "ran");
            outcomes.push(outcome.to_owned());
        }
    }
    assert_eq!((ran, outcomes.len()), (1, 1000), "{}", place.url());
    assert!(outcomes.iter().all(|it| *it == outcomes[0] && it.starts_with("outcome")));
    assert_eq!(effects(&orders.effects).len(), 1);
    Ok(())
}

#[test]
fn a_process_that_is_killed_anywhere_is_followed_by_one_that_knows() -> Tested {
    Place::each(killed)
}

fn killed(place: &Place) -> Tested {
    each_round(place, "kills", |round| killed_in(place, round))
}

fn killed_in(place: &Place, round: u32) -> Tested {
    for point in POINTS {
        let first = Orders { die: point, ..orders(place, &format!("rerun-{point:?}-{round}")) };
        // It dies before it can say anything.
        assert_eq!(Process::start(&first)?.line()?, None, "{point:?}");
        let second = Orders { die: Point::Never, ..first.clone() };
        let said = Process::start(&second)?.line()?.ok_or("nothing said")?;
        let whole = effects(&first.effects);
        let where_ = format!("{} {point:?}: {said}, {whole:?}", place.url());
        match point {
            Point::AfterRecord => assert!(said.starts_with("replayed"), "{where_}"),
            Point::BeforeClaim => assert!(said.ends_with("took over false"), "{where_}"),
            _ => assert!(said.starts_with("ran") && said.ends_with("over true"), "{where_}"),
        }
        // At least once, and never without being told.
        let most = if point == Point::AfterEffect { 2 } else { 1 };
        assert_eq!(whole.len(), most, "{where_}");
        if let [first, second] = &whole[..] {
            let fence = |line: &str| line.trim().parse::<u64>();
            assert!(fence(first)? < fence(second)?, "{where_}");
        }
    }
    Ok(())
}

#[test]
fn at_most_once_there_are_never_two_effects() -> Tested {
    Place::each(killed_at_most_once)
}

fn killed_at_most_once(place: &Place) -> Tested {
    each_round(place, "kills, at most once", |round| killed_at_most_once_in(place, round))
}

fn killed_at_most_once_in(place: &Place, round: u32) -> Tested {
    for point in POINTS {
        let orders = orders(place, &format!("most-{point:?}-{round}"));
        let first = Orders { die: point, at_most_once: true, ..orders };
        assert_eq!(Process::start(&first)?.line()?, None, "{point:?}");
        for _ in 0..2 {
            let next = Orders { die: Point::Never, ..first.clone() };
            let said = Process::start(&next)?.line()?.ok_or("nothing said")?;
            let whole = effects(&first.effects);
            let where_ = format!("{} {point:?}: {said}, {whole:?}", place.url());
            let known = match point {
                Point::BeforeClaim | Point::AfterRecord => said.contains("outcome"),
                _ => said == "unknown",
            };
            assert!(known && whole.len() <= 1, "{where_}");
        }
    }
    Ok(())
}

/// It wakes up when another has done the work: what it says is not heard, and
/// what it writes is refused.
#[test]
fn a_process_that_stood_still_changes_nothing_when_it_wakes() -> Tested {
    Place::each(stood_still)
}

fn stood_still(place: &Place) -> Tested {
    each_round(place, "stops", |round| stood_still_in(place, round))
}

fn stood_still_in(place: &Place, round: u32) -> Tested {
    let first = Orders { told: true, ..orders(place, &format!("stop-{round}")) };
    let mut slow = Process::start(&first)?;
    let begun = slow.line()?.ok_or("nothing said")?;
    let fence: u64 = begun.strip_prefix("begun ").ok_or("not begun")?.parse()?;
    slow.signal(Signal::STOP)?;
    let mut quick = Process::start(&first)?;
    let after: u64 =
        quick.line()?.ok_or("no line")?.strip_prefix("begun ").ok_or("not begun")?.parse()?;
    assert!(after > fence, "{after} after {fence}");
    quick.hears.take().ok_or("deaf")?.write_all(b"go\n")?;
    assert_eq!(quick.line()?.as_deref(), Some("accepted"));
    let said = quick.line()?.ok_or("no outcome")?;
    assert_eq!(said, format!("ran outcome of {after} took over true"));
    slow.hears.take().ok_or("deaf")?.write_all(b"go\n")?;
    slow.signal(Signal::CONT)?;
    let (mut last, mut accepted) = (String::new(), false);
    while let Some(line) = slow.line()? {
        accepted |= line == "accepted";
        last = line;
    }
    assert!(last == "lost" && !accepted, "{}: {last}", place.url());
    let next = Orders { told: false, ..first };
    let again = Process::start(&next)?.line()?.ok_or("nothing said")?;
    assert_eq!(again, format!("replayed outcome of {after} took over true"));
    Ok(())
}
