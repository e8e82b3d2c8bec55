//! Makers of ids, in turn and on several threads.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use leasehold_testkit::worked;

const ROUNDS: usize = 15;

/// A contestant: a name, and what makes some ids.
pub(crate) type Maker<'a> = (&'a str, Box<dyn Fn(u32) + Sync + 'a>);

/// Nanoseconds of work for each id, on so many threads at once: of many rounds,
/// in which all take turns, the best; with several threads the middle one,
/// because the best is one in which they did not meet.
pub(crate) fn nanos(threads: usize, count: u32, makers: &[Maker<'_>]) -> Vec<f64> {
    let mut all = vec![Vec::new(); makers.len()];
    for _ in 0..ROUNDS {
        for ((_, make), found) in makers.iter().zip(&mut all) {
            found.push(round(threads, count, make));
        }
    }
    let chosen = if threads > 1 { ROUNDS / 2 } else { 0 };
    let pick = |mut found: Vec<f64>| {
        found.sort_by(f64::total_cmp);
        found[chosen]
    };
    all.into_iter().map(pick).collect()
}

fn round(threads: usize, count: u32, make: &(dyn Fn(u32) + Sync)) -> f64 {
    let start = Barrier::new(threads);
    let work = || {
        start.wait();
        make(1_000);
        let before = worked::by_thread();
        make(count);
        (worked::by_thread() - before).as_secs_f64() * 1e9 / f64::from(count)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let sum: f64 = all.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        // As if one had made them all.
        sum / (threads * threads) as f64
    })
}

/// One table of nanoseconds, with the ratio to the first row.
pub(crate) fn table(title: &str, rows: &[(&str, f64)]) {
    println!("| {title} | ns | x the first |\n|---|---|---|");
    for (what, nanos) in rows {
        println!("| {what} | {nanos:.2} | {:.2} |", nanos / rows[0].1);
    }
    println!();
}

/// Calls `work` for about so long; how often, and in what time.
pub(crate) fn throughput(
    span: Duration,
    mut work: impl FnMut() -> u64,
) -> (f64, Duration, Duration) {
    let (start, before) = (Instant::now(), worked::by_process());
    let mut count = 0;
    while start.elapsed() < span {
        count += work();
    }
    let (wall, worked) = (start.elapsed(), worked::by_process() - before);
    (count as f64 / wall.as_secs_f64(), wall, worked)
}
