//! One crowd, in more and more processes.

use std::time::Duration;

use leasehold_testkit::contest::Checked;
use tokio::task::spawn_blocking;

use super::{Figure, Table, drawn, figure};
use crate::inside::Inside;
use crate::share::{Share, ShareOrder};

pub(super) const TABLE: Table = Table {
    name: "processes",
    title: "processes of one crowd of 64 tasks that want one name",
    figures: FIGURES,
    note: NOTE,
    sizes: &[1, 4, 16],
    quick: &[1, 4],
    looks: || Duration::ZERO,
};

const FIGURES: &[Figure] = &[
    drawn("hand_us", "a hand-over, lock + release", "µs"),
    figure(
        "spread",
        "grants of the process with the most, by those of the one with the fewest",
        "",
    )
    .of_worst(),
];

const NOTE: &str = "\
Each process has one client, and its part of 64 tasks that lock and release one name for five \
seconds, with plain `lock()`: one task of each process stands in the engine's line, the others wait \
behind it inside of their process. The hand-over is the time by the grants of all together.";

/// In all processes together.
const TASKS: usize = 64;
const LOOK: Duration = Duration::from_secs(5);

pub(super) async fn run(cell: &Inside) -> Checked {
    let look = if cell.quick { cell.look() } else { LOOK };
    let tasks = (TASKS / cell.size).max(1);
    let order = ShareOrder { url: cell.url.clone(), tasks, look, seconds: cell.seconds };
    let count = cell.size;
    let grants = spawn_blocking(move || contend(&order, count)).await??;
    let all: u64 = grants.iter().sum();
    cell.say("hand_us", look.as_secs_f64() * 1e6 / all.max(1) as f64);
    cell.say("spread", spread(&grants));
    Ok(())
}

/// 1 is even; of one that had none it is as if it had one.
fn spread(grants: &[u64]) -> f64 {
    let (most, fewest) = (grants.iter().max(), grants.iter().min());
    most.map_or(1, |it| (*it).max(1)) as f64 / fewest.map_or(1, |it| (*it).max(1)) as f64
}

/// The grants of each process.
fn contend(order: &ShareOrder, count: usize) -> Checked<Vec<u64>> {
    let mut shares = (0..count).map(|_| Share::spawn(order)).collect::<Checked<Vec<_>>>()?;
    shares.iter_mut().try_for_each(Share::await_ready)?;
    shares.iter_mut().try_for_each(Share::go)?;
    shares.into_iter().map(Share::end).collect()
}
