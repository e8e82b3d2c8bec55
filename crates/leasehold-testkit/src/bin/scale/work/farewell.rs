//! Many guards and the last handle are dropped at once, as a program does that ends.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_testkit::contest::Checked;
use tokio::task::spawn_blocking;

use super::{Figure, QUICK, Table, drawn, figure, held};
use crate::inside::Inside;
use crate::left;

pub(super) const TABLE: Table = Table {
    name: "farewell",
    title: "leases whose guards and handles are dropped at once",
    figures: FIGURES,
    note: NOTE,
    sizes: &[10_000, 100_000],
    quick: QUICK,
    looks: || Duration::ZERO,
};

const FIGURES: &[Figure] = &[
    drawn("drop_s", "to drop all guards, and then the last handle", "s").of_worst(),
    figure("handle_s", "of it, to drop the handle", "s").of_worst(),
    figure("left", "leases that were left to expire", "").of_worst(),
];

const NOTE: &str = "\
A client takes leases with a ttl of 30 s; then its guards are dropped one after the other by \
one thread, and its handle after them, which waits for releases that are on their way: a \
second, and one more for the engine to let go. *Left to expire* is what the metric \
`leasehold_left_to_expire_total` says then. `locks.shutdown(limit)` waits for as long as it is \
told to.";

pub(super) async fn run(cell: &Inside) -> Checked {
    let locks = cell.client_alone().await?;
    let guards = held::take(cell, &locks, Duration::from_secs(30)).await?;
    let (all, handle) = spawn_blocking(move || farewell(guards, locks)).await?;
    cell.say("drop_s", all.as_secs_f64());
    cell.say("handle_s", handle.as_secs_f64());
    cell.say("left", left::count() as f64);
    Ok(())
}

/// How long all of it takes, and the handle alone.
fn farewell(guards: Vec<Guard>, locks: Locks) -> (Duration, Duration) {
    let start = Instant::now();
    drop(guards);
    let dropped = start.elapsed();
    drop(locks);
    (start.elapsed(), start.elapsed().saturating_sub(dropped))
}
