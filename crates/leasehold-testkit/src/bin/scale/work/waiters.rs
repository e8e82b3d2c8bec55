//! Many wait for one name, each in the engine's own line.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locks};
use leasehold_testkit::contest::Checked;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Figure, QUICK, Table, drawn, figure};
use crate::inside::{Inside, LOOK};
use crate::meter::Meter;
use crate::probe::Probe;
use crate::procfs;
use crate::renewals;

pub(super) const TABLE: Table = Table {
    name: "waiters",
    title: "waiters in the engine's line for one name (`fair()`)",
    figures: FIGURES,
    note: NOTE,
    sizes: &[100, 1_000, 2_000, 10_000],
    quick: QUICK,
    looks,
};

const FIGURES: &[Figure] = &[
    drawn("join_us", "until all that came at once stand in line, per waiter", "µs"),
    figure("looked_s", "how long they were watched while they only wait", "s"),
    drawn("waiting_client", "client in that time, all waiters together", "% of a core"),
    drawn("waiting_server", "server in that time", "% of a core"),
    figure("alone_ms", "an unrelated lock + release, alone, median", "ms"),
    drawn("beside_ms", "an unrelated lock + release beside them, median", "ms"),
    figure("beside_worst_ms", "the worst of those, in a look as long", "ms").of_worst(),
    drawn("hand_us", "a hand-over while all go through, lock + release", "µs"),
    figure("client_bytes", "client memory per waiter", "bytes").of_first(),
];

const NOTE: &str = "\
Places are asked for with a ttl of 30 s. While all only wait they are watched for as long \
as two renewals of a place are apart at most, and then for as long again with the bystander \
beside them: each place is renewed in either look. The bystander makes a pair every ten \
milliseconds; alone it is watched for two seconds. Waiters are all under way at the same \
time; rows `by-hand` are bare requests, one after the other, and do not wait.";

/// An absolute path, for layouts whose names are paths.
const NAME: &str = "/line";

pub(super) type Line = JoinSet<leasehold::Result<()>>;

fn looks() -> Duration {
    LOOK + renewals::longest(renewals::ttl(false)) * 2
}

pub(super) async fn run(cell: &Inside) -> Checked {
    let (locks, other) = (cell.client().await?, cell.client().await?);
    if !cell.again {
        alone(cell, &other).await?;
    }
    let before = procfs::memory_of_this()?;
    let first = take(cell, &locks).await?;
    let start = Instant::now();
    let mut line = join(cell, &locks, &other, cell.size).await?;
    cell.say_each("join_us", micros(start.elapsed()));
    cell.say_each("client_bytes", procfs::memory_of_this()?.saturating_sub(before) as f64);
    if !cell.again {
        only_wait(cell).await?;
        beside(cell, &other).await?;
    }
    let start = Instant::now();
    all_go_through(first, &mut line).await?;
    cell.say_each("hand_us", micros(start.elapsed()));
    Ok(())
}

async fn alone(cell: &Inside, other: &Locks) -> Checked {
    let mut probe = Probe::new(other);
    probe.go_on(cell.look()).await?;
    cell.say("alone_ms", probe.median());
    Ok(())
}

/// What all others wait for.
pub(super) async fn take(cell: &Inside, locks: &Locks) -> Checked<Guard> {
    Ok(locks.mutex(NAME).fair().ttl(cell.ttl()).lock().await?)
}

/// So many come at once; until the store says that all stand in line.
pub(super) async fn join(
    cell: &Inside,
    locks: &Locks,
    other: &Locks,
    count: usize,
) -> Checked<Line> {
    let mut line = Line::new();
    for _ in 0..count {
        let mutex = locks.mutex(NAME).fair().ttl(cell.ttl());
        line.spawn(async move { mutex.lock().await?.release().await.map(drop) });
    }
    loop {
        let looked = Instant::now();
        // A look that fails has seen nothing; the next one may.
        let seen = other.status(NAME).await.map_or(0, |status| status.waiters.len());
        if seen >= count {
            return Ok(line);
        }
        while let Some(early) = line.try_join_next() {
            early??;
        }
        sleep((looked.elapsed() * 4).max(Duration::from_millis(2))).await;
    }
}

async fn only_wait(cell: &Inside) -> Checked {
    let look = renewals::longest(cell.ttl());
    let meter = Meter::start(cell)?;
    sleep(look).await;
    cell.say("looked_s", look.as_secs_f64());
    meter.say("waiting_client", "waiting_server")
}

async fn beside(cell: &Inside, other: &Locks) -> Checked {
    let mut probe = Probe::new(other);
    probe.go_on(renewals::longest(cell.ttl())).await?;
    cell.say("beside_ms", probe.median());
    cell.say("beside_worst_ms", probe.worst());
    Ok(())
}

pub(super) async fn all_go_through(first: Guard, line: &mut Line) -> Checked {
    first.release().await?;
    while let Some(done) = line.join_next().await {
        done??;
    }
    Ok(())
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}
