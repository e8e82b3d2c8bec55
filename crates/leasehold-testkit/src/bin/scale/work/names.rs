//! Many names, each locked once and never again.

use std::time::Instant;

use leasehold_testkit::contest::Checked;
use tokio::time::sleep;

use super::{Figure, QUICK, Table, drawn, figure};
use crate::crowd;
use crate::inside::{Inside, LOOK};
use crate::procfs;

pub(super) const TABLE: Table = Table {
    name: "names",
    title: "distinct names, each locked once",
    figures: FIGURES,
    note: NOTE,
    sizes: &[10_000, 100_000],
    quick: QUICK,
    looks: || LOOK,
};

const FIGURES: &[Figure] = &[
    drawn("pair_us", "to lock and release one, 1,000 at a time", "µs"),
    drawn("client_bytes", "client memory left per name", "bytes").of_first(),
    figure("server_bytes", "server memory left per name", "bytes").of_first(),
];

const NOTE: &str = "\
*1,000 at a time* is the whole time by the number of names, with 1,000 requests under way: \
it is no latency. Memory is looked at two seconds after the last release, and beside what it \
was after a first lock: the more names, the less does what a client has anyway count.";

pub(super) async fn run(cell: &Inside) -> Checked {
    let locks = cell.client().await?;
    locks.mutex("first").lock().await?.release().await?;
    let before = (procfs::memory_of_this()?, cell.server_memory()?);
    let start = Instant::now();
    crowd::each(0..cell.size, crowd::MANY, |n| {
        let mutex = locks.mutex(format!("once/{n}"));
        async move { Ok(mutex.lock().await?.release().await?) }
    })
    .await?;
    cell.say_each("pair_us", start.elapsed().as_secs_f64() * 1e6);
    if cell.again { Ok(()) } else { left(cell, before).await }
}

/// What is left of them once there was time to forget.
async fn left(cell: &Inside, before: (u64, u64)) -> Checked {
    sleep(cell.look()).await;
    cell.say_each("client_bytes", procfs::memory_of_this()?.saturating_sub(before.0) as f64);
    if cell.has_servers() {
        cell.say_each("server_bytes", cell.server_memory()?.saturating_sub(before.1) as f64);
    }
    Ok(())
}
