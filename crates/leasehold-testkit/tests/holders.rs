//! Processes that hold locks, and die, stop or just end.

// Waits for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::engine::profile::{Order, Reach};
use leasehold::{Guard, Locks, Mutex, Status};
use leasehold_testkit::check;
use leasehold_testkit::conformance::{
    EngineUnderTest, Outcome, Store, end_servers, files_of_clients,
};
use leasehold_testkit::history::{History, Outcome as Ended, Recorder, What};
use leasehold_testkit::holder::{End, Hold, Holder, Orders};
use leasehold_testkit::narrow;
use leasehold_testkit::register::Register;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);
const PROCESSES: u32 = 8;
const ROUNDS: u32 = 2000;
const KILLS: u32 = 25;

type Test = fn(&Bench) -> Outcome;

const TESTS: [(&str, Test); 3] = [
    ("a_stopped_holder_sees_its_loss_at_its_first_look", a_stopped_holder),
    ("processes_are_served_in_order_of_arrival", in_order),
    ("a_guard_dropped_as_main_ends_does_not_block_the_next_run", main_ends),
];

/// Where all processes are on one host, a death is noticed as it happens. Over
/// a network it takes a ttl; tests of the engine's faults kill processes there.
const DEATHS: [(&str, Test); 4] = [
    ("many_processes_and_sudden_deaths_never_overlap", many_processes),
    ("a_killed_holder_with_an_hour_left_lets_a_waiter_in", a_killed_holder),
    ("a_process_that_exits_while_it_holds_frees_the_name", exits),
    ("a_killed_waiter_does_not_block_those_behind", a_killed_waiter),
];

fn main() -> ExitCode {
    let code = match gather() {
        Ok(trials) => libtest_mimic::run(&Arguments::from_args(), trials).exit_code(),
        Err(why) => {
            let _ = writeln!(stderr(), "{why}");
            ExitCode::FAILURE
        }
    };
    end_servers();
    code
}

/// Engines that other processes can reach; a narrowed run may have none.
fn gather() -> Result<Vec<Trial>, String> {
    if let Some(names) = narrow::chosen() {
        let _ = writeln!(stderr(), "narrowed on purpose: only {}", names.join(", "));
    }
    let mut trials = Vec::new();
    for engine in EngineUnderTest::ALL.into_iter().filter(|engine| !engine.is_deployment()) {
        let chosen = EngineUnderTest::chosen()?.iter().any(|it| it.name() == engine.name());
        let profile = engine.profile().map_err(|why| format!("{}: {why}", engine.name()))?;
        if profile.reach > Reach::Process && profile.order == Order::Fifo {
            let deaths = DEATHS.into_iter().filter(|_| profile.reach == Reach::Host);
            let fit = TESTS.into_iter().chain(deaths);
            trials.extend(fit.map(|test| trial(engine, test).with_ignored_flag(!chosen)));
        }
    }
    if trials.is_empty() { Err("no trial to run, which proves nothing".into()) } else { Ok(trials) }
}

fn trial(engine: EngineUnderTest, (sentence, test): (&str, Test)) -> Trial {
    Trial::test(format!("{}::holders::{sentence}", engine.name()), move || {
        let bench = Bench::new(engine).map_err(|why| why.to_string())?;
        Ok(test(&bench).map_err(|why| why.to_string())?)
    })
}

/// A store that processes share, and a client of our own.
struct Bench {
    // Dropped first: a client ends before its store does.
    locks: Locks,
    runtime: Runtime,
    store: Store,
}

impl Bench {
    fn new(engine: EngineUnderTest) -> Outcome<Self> {
        let (store, runtime) = (engine.store()?, Runtime::new()?);
        let locks = runtime.block_on(store.open())?.into_locks();
        Ok(Self { locks, runtime, store })
    }

    fn orders(&self) -> Orders {
        Orders::new(self.store.url().expect("other processes can reach it"), "n")
    }

    fn mutex(&self) -> Mutex {
        self.locks.mutex("n").ttl(Duration::from_secs(3600))
    }

    fn lock(&self) -> Outcome<Guard> {
        let lock = self.mutex().lock().within(PATIENCE);
        Ok(self.runtime.block_on(lock.into_future())?)
    }

    fn status(&self) -> Outcome<Status> {
        Ok(self.runtime.block_on(self.locks.status("n"))?)
    }

    fn release(&self, guard: Guard) -> Outcome {
        self.runtime.block_on(guard.release())?;
        Ok(())
    }

    /// Nobody holds the name or waits for it, nor has left anything on disk.
    fn is_clean(&self) -> Outcome {
        until("an idle name", || Ok(!self.status()?.is_busy()))
    }
}

fn until(what: &str, mut probe: impl FnMut() -> Outcome<bool>) -> Outcome {
    let end = Instant::now() + PATIENCE;
    while !probe()? {
        ensure(Instant::now() < end, format!("not within {PATIENCE:?}: {what}"))?;
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn ensure(holds: bool, why: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(why.into().into()) }
}

/// Killed processes are replaced until every round was done.
fn many_processes(bench: &Bench) -> Outcome {
    let mut crowd = Crowd::new(bench)?;
    while crowd.kills < KILLS && !crowd.is_done()? {
        sleep(Duration::from_millis(fastrand::u64(20..250)));
        crowd.kill_one()?;
    }
    let end = Instant::now() + 5 * PATIENCE;
    while !crowd.is_done()? {
        ensure(Instant::now() < end, "the crowd is never done")?;
        sleep(Duration::from_millis(20));
    }
    crowd.verify(bench)
}

/// The processes that hammer one name.
struct Crowd {
    orders: Orders,
    history: PathBuf,
    recorder: Recorder,
    members: Vec<(Holder, u32)>,
    kills: u32,
}

impl Crowd {
    fn new(bench: &Bench) -> Outcome<Self> {
        let history = bench.store.scratch("history");
        let recorder = Recorder::open(&history)?;
        let orders = bench.orders().history(&history).register(bench.store.scratch("register"));
        let mut crowd = Self { orders, history, recorder, members: Vec::new(), kills: 0 };
        (0..PROCESSES).try_for_each(|_| crowd.start(ROUNDS))?;
        Ok(crowd)
    }

    fn start(&mut self, rounds: u32) -> Outcome {
        let holder = Holder::spawn(self.orders.clone().rounds(rounds))?;
        self.members.push((holder, rounds));
        Ok(())
    }

    fn is_done(&mut self) -> Outcome<bool> {
        let mut done = true;
        for (member, _) in &mut self.members {
            done &= member.is_done()?;
        }
        Ok(done)
    }

    /// Kills one that is at work, and lets another do what is left of its work.
    fn kill_one(&mut self) -> Outcome {
        let at = fastrand::usize(..self.members.len());
        if self.members[at].0.is_done()? {
            return Ok(());
        }
        let (mut victim, rounds) = self.members.swap_remove(at);
        self.recorder.kill(victim.pid());
        victim.kill()?;
        self.kills += 1;
        let done = self.rounds_of(victim.pid())?;
        self.start(rounds.saturating_sub(done).max(1))
    }

    /// How many rounds a process has finished.
    fn rounds_of(&self, pid: u32) -> Outcome<u32> {
        let released = |what: &What| matches!(what, What::Released { outcome: Ended::Ok });
        let history = History::read(&self.history)?;
        let mine = history.events().iter().filter(|it| it.pid == pid && released(&it.what));
        Ok(u32::try_from(mine.count())?)
    }

    fn verify(self, bench: &Bench) -> Outcome {
        let history = History::read(&self.history)?;
        let (grants, total) = (history.grants().len(), (PROCESSES * ROUNDS) as usize);
        ensure(self.kills > 0, "nobody was killed, so nothing was shown")?;
        ensure(grants >= total, format!("{grants} grants instead of {total}"))?;
        check::all(&history)?;
        check::register(&Register::open(bench.store.scratch("register"))?.accesses()?)?;
        bench.is_clean()?;
        left_on_disk(bench)
    }
}

/// Once the last client has gone, no lock or socket of the dead stays.
fn left_on_disk(bench: &Bench) -> Outcome {
    let Some(folder) = bench.store.files() else { return Ok(()) };
    let shutdown = bench.locks.shutdown(PATIENCE);
    bench.runtime.block_on(shutdown)?;
    let left = files_of_clients(&folder)?;
    ensure(left.is_empty(), format!("left by clients: {left:?}"))
}

fn a_killed_holder(bench: &Bench) -> Outcome {
    let mut holder = Holder::spawn(bench.orders().hold(Hold::UntilTold))?;
    let fence = holder.granted()?;
    let left = bench.status()?.holders[0].time_left;
    ensure(left > Some(2 * PATIENCE), format!("{left:?} left: its ttl could do it"))?;
    let (mutex, runtime) = (bench.mutex(), &bench.runtime);
    let waiter = runtime.spawn(mutex.lock().within(PATIENCE).into_future());
    until("a waiter", || Ok(bench.status()?.waiters.len() == 1))?;
    holder.kill()?;
    let guard = runtime.block_on(waiter)??;
    ensure(guard.fence() > fence, "the fence did not grow")?;
    bench.release(guard)?;
    bench.is_clean()
}

fn a_stopped_holder(bench: &Bench) -> Outcome {
    let register = Register::open(bench.store.scratch("register"))?;
    let orders = bench.orders().ttl(Duration::from_secs(1)).hold(Hold::UntilTold);
    let mut holder = Holder::spawn(orders.register(bench.store.scratch("register")))?;
    let fence = holder.granted()?;
    holder.stop()?;
    let guard = bench.lock()?;
    ensure(guard.fence() > fence, "the fence did not grow")?;
    let value = register.read(guard.fence())?.ok_or("the register refuses the new holder")?;
    ensure(register.write(guard.fence(), value, value + 1)?, "nor its write")?;
    // What it finds first when it goes on is that it may go on.
    holder.go()?;
    holder.cont()?;
    let look = holder.until("")?;
    ensure(look == "lost", format!("its first look says {look:?}"))?;
    ensure(holder.until("")? == "refused", "the register let it write")?;
    ensure(holder.until("")? == "already lost", "it released what was not its own")?;
    holder.wait()?;
    guard.check()?;
    Ok(check::register(&register.accesses()?)?)
}

fn in_order(bench: &Bench) -> Outcome {
    let guard = bench.lock()?;
    let mut holders = Vec::new();
    for place in 0..6 {
        let orders = bench.orders().fair().hold(Hold::UntilTold).label(format!("number {place}"));
        holders.push(Holder::spawn(orders)?);
        until("one more waiter", || Ok(bench.status()?.waiters.len() == place + 1))?;
    }
    let mut last = guard.fence();
    bench.release(guard)?;
    for (place, holder) in holders.iter_mut().enumerate() {
        let fence = holder.granted()?;
        let label = bench.status()?.holders[0].label.to_string();
        ensure(label == format!("number {place}"), format!("{label} in the turn of {place}"))?;
        ensure(fence > last, "the fence did not grow")?;
        last = fence;
        holder.go()?;
    }
    bench.is_clean()
}

fn main_ends(bench: &Bench) -> Outcome {
    for _ in 0..5 {
        let mut holder = Holder::spawn(bench.orders().end(End::Main))?;
        holder.granted()?;
        holder.wait()?;
        let next = bench.runtime.block_on(bench.mutex().try_lock())?;
        bench.release(next.ok_or("the next run is blocked")?)?;
    }
    Ok(())
}

fn exits(bench: &Bench) -> Outcome {
    for _ in 0..3 {
        let mut holder = Holder::spawn(bench.orders().end(End::Exit))?;
        let fence = holder.granted()?;
        holder.wait()?;
        let guard = bench.lock()?;
        ensure(guard.fence() > fence, "the fence did not grow")?;
        bench.release(guard)?;
    }
    bench.is_clean()
}

fn a_killed_waiter(bench: &Bench) -> Outcome {
    let guard = bench.lock()?;
    let mut waiter = Holder::spawn(bench.orders().hold(Hold::UntilTold))?;
    until("a waiter", || Ok(bench.status()?.waiters.len() == 1))?;
    let mut behind = Holder::spawn(bench.orders().hold(Hold::UntilTold))?;
    until("two waiters", || Ok(bench.status()?.waiters.len() == 2))?;
    waiter.kill()?;
    bench.release(guard)?;
    behind.granted()?;
    behind.go()?;
    behind.wait()?;
    bench.is_clean()
}
