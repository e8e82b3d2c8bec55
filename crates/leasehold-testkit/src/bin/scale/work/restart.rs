//! Servers are killed and started again under many who hold and many who wait.

use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_testkit::contest::Checked;

use super::{Figure, QUICK, Table, drawn, figure, held, waiters};
use crate::inside::Inside;
use crate::probe::Probe;
use crate::renewals::Renewals;

pub(super) const TABLE: Table = Table {
    name: "restart",
    title: "leases held as the server is restarted, a tenth as many waiters",
    figures: FIGURES,
    note: NOTE,
    sizes: &[1_000, 10_000],
    quick: QUICK,
    looks: || Duration::ZERO,
};

const FIGURES: &[Figure] = &[
    figure("down_s", "how long the server was away", "s").of_worst(),
    drawn("known_s", "from then on, until each lease is confirmed again or told lost", "s")
        .of_worst(),
    figure("lost", "leases lost", "").of_worst(),
    drawn("worst_ms", "the worst unrelated lock + release in that time", "ms").of_worst(),
    drawn("through_s", "until all waiters have gone through after that", "s").of_worst(),
];

const NOTE: &str = "\
All servers are killed (SIGKILL) and started again at once, at the same address and with what \
they have on disk. Holders are one client with a ttl of 30 s, and so are as many as a tenth \
of them that wait for one name with `fair()`; their engine is opened with \
`retry=forever:20ms`. A lease is confirmed when its deadline is later than it was while the \
server was away: an engine that was asked for nothing meanwhile hears of the restart with the \
next renewal, ten seconds after the last one at most. The bystander's first pair begins as \
soon as the server is back.";

/// How long the bystander goes on between two looks at the holders.
const LOOK: Duration = Duration::from_millis(50);

pub(super) async fn run(cell: &Inside) -> Checked {
    let (locks, other) = (cell.patient_client().await?, cell.patient_client().await?);
    let guards = held::take(cell, &locks, cell.ttl()).await?;
    let first = waiters::take(cell, &locks).await?;
    let mut line = waiters::join(cell, &locks, &other, (cell.size / 10).max(1)).await?;
    let start = Instant::now();
    Inside::await_servers_down().await?;
    let renewals = Renewals::of(&guards, cell.ttl());
    Inside::await_servers_up().await?;
    cell.say("down_s", start.elapsed().as_secs_f64());
    await_news(cell, &other, &renewals).await?;
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    cell.say("lost", lost as f64);
    let start = Instant::now();
    waiters::all_go_through(first, &mut line).await?;
    cell.say("through_s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Until every holder knows, with a bystander beside them.
async fn await_news(cell: &Inside, other: &Locks, renewals: &Renewals<'_>) -> Checked {
    let (start, mut probe) = (Instant::now(), Probe::new(other));
    probe.go_on(LOOK).await?;
    while !renewals.are_all_seen() {
        probe.go_on(LOOK).await?;
    }
    cell.say("known_s", start.elapsed().as_secs_f64());
    cell.say("worst_ms", probe.worst());
    Ok(())
}
