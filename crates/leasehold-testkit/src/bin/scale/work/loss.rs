//! Many leases are lost at once, and every guard has to hear of it.

use std::time::{Duration, Instant};

use leasehold::engine::{Eviction, Target};
use leasehold::{Guard, Locks};
use leasehold_testkit::contest::Checked;
use tokio::task::JoinSet;

use super::{Figure, QUICK, Table, drawn, figure, held, storm};
use crate::crowd;
use crate::inside::Inside;

pub(super) const TABLE: Table = Table {
    name: "loss",
    title: "leases lost, one after the other and all at once",
    figures: FIGURES,
    note: NOTE,
    sizes: &[1_000, 10_000],
    quick: QUICK,
    looks: || Duration::ZERO,
};

const FIGURES: &[Figure] = &[
    drawn("evicted_us", "evicted, 64 at a time: until all guards know, per lease", "µs"),
    drawn("at_once_s", "all gone at once: until all guards know", "s"),
    figure("next_ms", "the next lock + release after that", "ms"),
];

const NOTE: &str = "\
Another client evicts each lease by its name, with 64 requests under way; the figure is the \
whole time, from the first request until the last guard has heard, by the number of leases. \
*All at once* counts from the first request to the server: Redis is told `FLUSHALL`; in etcd \
every lease is revoked, and in ZooKeeper every session ended, one after the other: a client \
has one of these for all that it holds.";

/// Where a server tells nobody, guards hear of it at the next renewal: two seconds
/// later at most.
const TTL: Duration = Duration::from_secs(6);

pub(super) async fn run(cell: &Inside) -> Checked {
    let (locks, other) = (cell.client().await?, cell.client().await?);
    let guards = held::take(cell, &locks, TTL).await?;
    let start = Instant::now();
    let hearing = hear(guards);
    evict(cell, &other).await?;
    hearing.join_all().await;
    cell.say_each("evicted_us", start.elapsed().as_secs_f64() * 1e6);
    if storm::is_known(cell) { at_once(cell, &locks, &other).await } else { Ok(()) }
}

async fn evict(cell: &Inside, other: &Locks) -> Checked {
    let order =
        |n| Eviction::new(other.name(&held::name(cell, n))?, Target::All, "scale", "to measure");
    crowd::each(0..cell.size, crowd::SOME, |n| {
        let (other, order) = (other.clone(), order(n));
        async move { Ok(other.evict(order?).await?) }
    })
    .await
    .map(drop)
}

async fn at_once(cell: &Inside, locks: &Locks, other: &Locks) -> Checked {
    let guards = held::take(cell, locks, TTL).await?;
    let hearing = hear(guards);
    let start = Instant::now();
    storm::strike(cell).await?;
    hearing.join_all().await;
    cell.say("at_once_s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    other.mutex("next").lock().await?.release().await?;
    cell.say("next_ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// A task for each guard, which ends when the guard knows.
fn hear(guards: Vec<Guard>) -> JoinSet<()> {
    guards.into_iter().map(|guard| async move { drop(guard.lost().await) }).collect()
}
