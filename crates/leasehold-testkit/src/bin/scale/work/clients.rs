//! Many clients of one store, which do nothing.

use std::time::{Duration, Instant};

use leasehold_testkit::contest::Checked;
use tokio::time::sleep;

use super::{Figure, QUICK, Table, drawn, figure};
use crate::crowd;
use crate::inside::Inside;
use crate::meter::Meter;
use crate::procfs;

pub(super) const TABLE: Table = Table {
    name: "clients",
    title: "clients of one store, all in one process",
    figures: FIGURES,
    note: NOTE,
    sizes: &[100, 500],
    quick: QUICK,
    looks: || IDLE,
};

const FIGURES: &[Figure] = &[
    drawn("open_ms", "to open one, with a first lock + release, 64 at a time", "ms"),
    figure("sockets", "connections per client", "").of_first(),
    figure("threads", "threads per client", "").of_first(),
    figure("looked_s", "how long they were watched, idle", "s"),
    drawn("idle_client", "all clients, in that time", "% of a core"),
    drawn("idle_server", "server, in that time", "% of a core"),
    figure("client_bytes", "client memory per client", "bytes").of_first(),
    figure("server_bytes", "server memory per client", "bytes").of_first(),
];

const NOTE: &str = "\
All clients are in one process. *64 at a time* is the whole time by the number of clients, \
with 64 of them under way: it is no latency. A quiet connection is probed every two \
(ZooKeeper), five (Redis and databases) or ten seconds (etcd): idle clients are watched for \
twice the longest of these, and a second.";

/// Twice the longest pause between two probes of a quiet connection, which is that of
/// etcd's link, and a second.
const IDLE: Duration = Duration::from_secs(21);

/// What the first requests leave behind settles.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) async fn run(cell: &Inside) -> Checked {
    // What there is one of, however many clients come.
    let first = cell.client().await?;
    first.mutex("first").lock().await?.release().await?;
    let before = Footprint::now(cell)?;
    let start = Instant::now();
    let clients = crowd::each(0..cell.size, crowd::SOME, |n| {
        let (opening, name) = (leasehold::open(cell.url.clone()), format!("client/{n}"));
        async move {
            let locks = opening.await?;
            locks.mutex(name).lock().await?.release().await?;
            Ok(locks)
        }
    })
    .await?;
    cell.say_each("open_ms", start.elapsed().as_secs_f64() * 1e3);
    sleep(SETTLE).await;
    Footprint::now(cell)?.say(&before, cell);
    if !cell.again {
        idle(cell).await?;
    }
    drop(clients);
    Ok(())
}

async fn idle(cell: &Inside) -> Checked {
    let look = if cell.quick { cell.look() } else { IDLE };
    let meter = Meter::start(cell)?;
    sleep(look).await;
    cell.say("looked_s", look.as_secs_f64());
    meter.say("idle_client", "idle_server")
}

/// What this process and the servers take up.
struct Footprint {
    sockets: usize,
    threads: usize,
    client: u64,
    server: u64,
}

impl Footprint {
    fn now(cell: &Inside) -> Checked<Self> {
        Ok(Self {
            sockets: procfs::sockets_of_this()?,
            threads: procfs::threads_of_this()?,
            client: procfs::memory_of_this()?,
            server: cell.server_memory()?,
        })
    }

    fn say(&self, before: &Self, cell: &Inside) {
        cell.say_each("sockets", self.sockets.saturating_sub(before.sockets) as f64);
        cell.say_each("threads", self.threads.saturating_sub(before.threads) as f64);
        cell.say_each("client_bytes", self.client.saturating_sub(before.client) as f64);
        if cell.has_servers() {
            cell.say_each("server_bytes", self.server.saturating_sub(before.server) as f64);
        }
    }
}
