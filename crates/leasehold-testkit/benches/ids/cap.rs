//! At the cap of 4,096 ids a millisecond: how close, and what waiting costs.

use std::hint::black_box;
use std::time::Duration;

use ferroid::generator::AtomicSnowflakeGenerator;
use ferroid::id::SnowflakeTwitterId;
use ferroid::time::MonotonicClock;
use leasehold::Locks;
use leasehold::ids::{Snowflake, SnowflakeIds};
use leasehold_testkit::worked;

use super::burst::ours;
use super::measure::throughput;

const CAP: f64 = 4_096_000.0;
const SPAN: Duration = Duration::from_secs(3);

pub(crate) fn report() {
    println!("| one caller that never stops | of the cap | cores |\n|---|---|---|");
    let ids = ours(|it| it);
    row("ours, blocking", 1.0, throughput(SPAN, || some(&ids)));
    let ids = ours(|it| it);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    row("ours, async", 1.0, throughput(SPAN, || runtime.block_on(some_async(&ids))));
    let ids = ours(Snowflake::spin);
    row("ours, blocking, spin", 1.0, throughput(SPAN, || some(&ids)));
    let ferroid =
        AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, MonotonicClock::default());
    row("ferroid Atomic", 1.0, throughput(SPAN, || each(|| ferroid.next_id(|_| {}).to_raw())));
    let snowflaked = snowflaked::sync::Generator::new(1);
    row("snowflaked sync", 1.0, throughput(SPAN, || each(|| snowflaked.generate::<u64>())));
    two_workers();
}

fn row(what: &str, workers: f64, (rate, wall, worked): (f64, Duration, Duration)) {
    let cores = worked.as_secs_f64() / wall.as_secs_f64();
    println!("| {what} | {:.2} % | {cores:.3} |", rate / CAP / workers * 100.0);
}

fn each(make: impl Fn() -> u64) -> u64 {
    for _ in 0..10_000 {
        black_box(make());
    }
    10_000
}

fn some(ids: &SnowflakeIds) -> u64 {
    each(|| ids.blocking_next().expect("an id"))
}

async fn some_async(ids: &SnowflakeIds) -> u64 {
    for _ in 0..10_000 {
        ids.next().await.expect("an id");
    }
    10_000
}

/// Two leased numbers in one generator, on two threads.
fn two_workers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let locks = Locks::memory();
    let ids = runtime.block_on(locks.ids("t").snowflake().workers(2).open()).expect("opened");
    let count = std::sync::atomic::AtomicU64::new(0);
    let before = worked::by_process();
    let (_, wall, _) = std::thread::scope(|scope| {
        let work = || {
            throughput(SPAN, || {
                let made = some(&ids);
                count.fetch_add(made, std::sync::atomic::Ordering::Relaxed);
                made
            })
        };
        let other = scope.spawn(work);
        let mine = work();
        other.join().expect("no panic");
        mine
    });
    let worked = worked::by_process() - before;
    let rate = count.into_inner() as f64 / wall.as_secs_f64();
    row("ours, two workers, two threads (of twice the cap)", 2.0, (rate, wall, worked));
}

/// How often the process wakes up while nobody wants an id.
pub(crate) fn idle() {
    let (fixed, locks) = (ours(|it| it), leasehold::blocking::Locks::memory());
    let segment = locks.ids("t").segment().blocking_open().expect("opened");
    let (_, _) = (some(&fixed), segment.blocking_next());
    std::thread::sleep(Duration::from_millis(200));
    let before = switches();
    std::thread::sleep(SPAN);
    let woken = (switches() - before).saturating_sub(1);
    println!(
        "ours, fixed and segment, idle: {:.1} wake-ups a second",
        woken as f64 / SPAN.as_secs_f64()
    );
    let _ferroid = MonotonicClock::default();
    std::thread::sleep(Duration::from_millis(200));
    let before = switches();
    std::thread::sleep(SPAN);
    let woken = (switches() - before).saturating_sub(1);
    println!("with a clock of ferroid: {:.1} wake-ups a second", woken as f64 / SPAN.as_secs_f64());
}

fn switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").filter_map(Result::ok);
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let count = |text: String| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok());
        line.unwrap_or(0_u64)
    };
    status.map(count).sum()
}
