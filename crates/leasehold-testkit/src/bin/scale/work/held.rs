//! Many leases are kept at the same time.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_testkit::contest::Checked;
use tokio::time::sleep;

use super::{Figure, QUICK, Table, drawn, figure};
use crate::crowd;
use crate::inside::Inside;
use crate::meter::Meter;
use crate::probe::Probe;
use crate::procfs;
use crate::renewals::{self, Renewals};

pub(super) const TABLE: Table = Table {
    name: "held",
    title: "leases held at once, ttl 30 s",
    figures: FIGURES,
    note: NOTE,
    sizes: &[10_000, 100_000],
    quick: QUICK,
    looks,
};

const FIGURES: &[Figure] = &[
    drawn("take_us", "to take one, 1,000 at a time", "µs"),
    figure("looked_s", "how long they were watched, until each was renewed", "s"),
    figure("renewed", "renewals of a lease that were seen in that time", ""),
    drawn("keep_client", "client to keep them, in that time", "% of a core"),
    drawn("keep_server", "server to keep them, in that time", "% of a core"),
    figure("beside_s", "how long the bystander was watched, until each was renewed again", "s"),
    figure("pair_ms", "an unrelated lock + release in that time, median", "ms"),
    drawn("worst_ms", "the worst of those, while leases are renewed", "ms").of_worst(),
    figure("release_us", "to release one, 1,000 at a time", "µs"),
    figure("client_bytes", "client memory per lease", "bytes").of_first(),
    figure("server_bytes", "server memory per lease", "bytes").of_first(),
    figure("lost", "leases lost", "").of_worst(),
];

const NOTE: &str = "\
The ttl is 30 s: a lease is renewed every ten seconds, or up to two and a half later. Leases \
are watched until each was seen renewed, by its deadline; a cell in which one was not within \
half the ttl fails. Some are renewed twice in that time: the table says how many. Where \
leases live with a session (etcd, ZooKeeper) what is sent is one sign of life for all. The \
worst is that of one look of this length, with a pair every ten milliseconds: not of a day. \
*1,000 at a time* is the whole time by the number of leases, with 1,000 requests under way: \
it is no latency.";

fn looks() -> Duration {
    renewals::parts(renewals::ttl(false)).take(1).sum::<Duration>() * 2
}

pub(super) async fn run(cell: &Inside) -> Checked {
    let (locks, other) = (cell.client().await?, cell.client().await?);
    let before = (procfs::memory_of_this()?, cell.server_memory()?);
    let guards = take(cell, &locks, cell.ttl()).await?;
    let after = (procfs::memory_of_this()?, cell.server_memory()?);
    cell.say_each("client_bytes", after.0.saturating_sub(before.0) as f64);
    if cell.has_servers() {
        cell.say_each("server_bytes", after.1.saturating_sub(before.1) as f64);
    }
    if !cell.again {
        keep(cell, &guards).await?;
        bystand(cell, &other, &guards).await?;
    }
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    cell.say("lost", lost as f64);
    release(cell, guards).await
}

/// Takes as many as the cell is large.
pub(super) async fn take(cell: &Inside, locks: &Locks, ttl: Duration) -> Checked<Vec<Guard>> {
    let start = Instant::now();
    let guards = crowd::each(0..cell.size, crowd::MANY, |n| {
        let mutex = locks.mutex(name(cell, n)).ttl(ttl);
        async move { Ok(mutex.lock().await?) }
    });
    let guards = guards.await?;
    cell.say_each("take_us", start.elapsed().as_secs_f64() * 1e6);
    Ok(guards)
}

/// The name of a lease; other cells have other names, which a store may remember.
pub(super) fn name(cell: &Inside, n: usize) -> String {
    format!("{}{n:07}", prefix(cell))
}

/// How the names of a cell begin.
pub(super) fn prefix(cell: &Inside) -> String {
    format!("{}-{}/", cell.work.name(), cell.size)
}

async fn keep(cell: &Inside, guards: &[Guard]) -> Checked {
    let renewals = Renewals::of(guards, cell.ttl());
    let (meter, start) = (Meter::start(cell)?, Instant::now());
    for part in renewals::parts(cell.ttl()) {
        sleep(part).await;
        if renewals.are_all_seen() {
            break;
        }
    }
    let span = start.elapsed().as_secs_f64();
    cell.say_each("renewed", renewals.count()? as f64);
    cell.say("looked_s", span);
    meter.say("keep_client", "keep_server")
}

async fn bystand(cell: &Inside, other: &Locks, guards: &[Guard]) -> Checked {
    let renewals = Renewals::of(guards, cell.ttl());
    let (mut probe, start) = (Probe::new(other), Instant::now());
    for part in renewals::parts(cell.ttl()) {
        probe.go_on(part).await?;
        if renewals.are_all_seen() {
            break;
        }
    }
    renewals.count()?;
    cell.say("beside_s", start.elapsed().as_secs_f64());
    cell.say("pair_ms", probe.median());
    cell.say("worst_ms", probe.worst());
    Ok(())
}

async fn release(cell: &Inside, guards: Vec<Guard>) -> Checked {
    let start = Instant::now();
    crowd::each(guards, crowd::MANY, |guard| async move { Ok(guard.release().await?) }).await?;
    cell.say_each("release_us", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}
