//! Segment ids beside the floor: one shared counter.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::blocking::Locks;

use super::measure::{Maker, nanos, table};

const COUNT: u32 = 4_000_000;

pub(crate) fn report() {
    let locks = Locks::memory();
    let shared = locks.ids("shared").segment().blocking_open().expect("opened");
    let floor = AtomicU64::new(0);
    let makers: [Maker<'_>; 3] = [
        (
            "AtomicU64::fetch_add",
            Box::new(|count| {
                for _ in 0..count {
                    black_box(floor.fetch_add(1, Ordering::Relaxed));
                }
            }),
        ),
        (
            "segment, shared",
            Box::new(|count| {
                for _ in 0..count {
                    black_box(shared.blocking_next().expect("an id"));
                }
            }),
        ),
        (
            "segment, a stripe for each thread",
            Box::new(|count| {
                let mut stripe = shared.stripe();
                for _ in 0..count {
                    black_box(stripe.blocking_next().expect("an id"));
                }
            }),
        ),
    ];
    for threads in [1, 2] {
        let found = nanos(threads, COUNT, &makers);
        let rows: Vec<_> = makers.iter().map(|(name, _)| *name).zip(found).collect();
        table(&format!("{threads} thread(s), ns of work for each id"), &rows);
    }
}
