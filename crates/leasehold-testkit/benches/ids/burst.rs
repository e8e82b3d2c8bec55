//! Snowflake ids below the cap: bursts that fit into a millisecond.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use ferroid::generator::AtomicSnowflakeGenerator;
use ferroid::id::SnowflakeTwitterId;
use ferroid::time::MonotonicClock;
use leasehold::ids::{Freshness, Layout, Snowflake, SnowflakeIds};
use leasehold_testkit::worked;
use rustix::time::{ClockId, clock_gettime};

use super::measure::table;

const BURST: u32 = 2_000;
const BURSTS: usize = 300;

pub(crate) fn ours(change: impl Fn(Snowflake) -> Snowflake) -> SnowflakeIds {
    change(Snowflake::fixed(1, Layout::default())).build().expect("a good layout")
}

pub(crate) fn report() {
    let [exact, tick] =
        [Freshness::Exact, Freshness::Tick].map(|freshness| ours(|it| it.freshness(freshness)));
    let ferroid =
        AtomicSnowflakeGenerator::<SnowflakeTwitterId, _>::new(1, MonotonicClock::default());
    let snowflaked = snowflaked::sync::Generator::new(1);
    let rs = Mutex::new(snowflake::SnowflakeIdGenerator::new(1, 1));
    let ulid = Mutex::new(ulid::Generator::new());
    let one = |ids: &SnowflakeIds| black_box(ids.blocking_next().expect("an id"));
    let read = |clock| {
        black_box(clock_gettime(clock));
    };
    let rows: [(&str, f64); 10] = [
        (
            "ferroid Atomic (a 1 kHz thread ticks)",
            burst(|| {
                black_box(ferroid.next_id(|_| {}));
            }),
        ),
        (
            "ours, exact",
            burst(|| {
                one(&exact);
            }),
        ),
        (
            "ours, tick",
            burst(|| {
                one(&tick);
            }),
        ),
        ("the clock of exact, read and no more", burst(|| read(ClockId::Realtime))),
        ("the clock of tick, read and no more", burst(|| read(ClockId::RealtimeCoarse))),
        (
            "snowflaked sync",
            burst(|| {
                black_box(snowflaked.generate::<u64>());
            }),
        ),
        (
            "rs-snowflake real_time, in a mutex",
            burst(|| {
                black_box(rs.lock().expect("no panic").real_time_generate());
            }),
        ),
        (
            "uuid now_v7",
            burst(|| {
                black_box(uuid::Uuid::now_v7());
            }),
        ),
        (
            "ulid Generator, in a mutex",
            burst(|| {
                let _ = black_box(ulid.lock().expect("no panic").generate());
            }),
        ),
        ("ours, batch of 1,000, for each id", batch(&exact)),
    ];
    table("one thread, below the cap, ns for each id", &rows);
}

/// The median of many bursts, each in a millisecond of its own.
fn burst(mut make: impl FnMut()) -> f64 {
    let mut found: Vec<f64> = (0..BURSTS)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            let before = worked::by_thread();
            (0..BURST).for_each(|_| make());
            (worked::by_thread() - before).as_secs_f64() * 1e9 / f64::from(BURST)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

fn batch(ids: &SnowflakeIds) -> f64 {
    burst_of(|| {
        black_box(ids.blocking_batch(1_000).expect("ids"));
    }) / 1_000.0
}

fn burst_of(mut make: impl FnMut()) -> f64 {
    let mut found: Vec<f64> = (0..BURSTS)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            let before = worked::by_thread();
            (0..4).for_each(|_| make());
            (worked::by_thread() - before).as_secs_f64() * 1e9 / 4.0
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}
