//! The inside of a process that measures one cell: it prints `key value`, a line
//! for each figure as soon as it is known.

use std::io::stdin;
use std::process::exit;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use leasehold::Locks;
use leasehold_testkit::contest::Checked;
use tokio::task::spawn_blocking;

use crate::order::{self, Order};
use crate::{by_hand, engines, left, procfs, renewals};

/// See [`Inside::look`].
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// What is known inside.
#[derive(Debug)]
pub(crate) struct Inside {
    order: Order,
    /// A store in memory is that of one client alone; others have a share of it.
    memory: OnceLock<Locks>,
}

impl std::ops::Deref for Inside {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

/// Carries out one order, as JSON.
pub(crate) fn measure(order: &str) -> Checked {
    let cell = Inside { order: serde_json::from_str(order)?, memory: OnceLock::new() };
    left::listen()?;
    run_for(cell.seconds, run(&cell))
}

/// Ends with this work, or soon after so many seconds.
pub(crate) fn run_for(seconds: u64, work: impl Future<Output = Checked>) -> Checked {
    end_by_itself(Duration::from_secs(seconds + 5));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(work)?;
    // Nobody waits for what is given back in the background.
    leave()
}

#[allow(clippy::exit, reason = "what was measured has been said")]
fn leave() -> ! {
    exit(0)
}

/// Whoever started us may have been killed.
#[allow(clippy::exit, reason = "there is nothing to save")]
fn end_by_itself(after: Duration) {
    thread::spawn(move || {
        thread::sleep(after);
        exit(1)
    });
}

async fn run(cell: &Inside) -> Checked {
    match cell.engine.as_str() {
        engines::ETCD_BY_HAND => by_hand::etcd::line(cell).await,
        engines::ZOOKEEPER_BY_HAND => by_hand::zookeeper::line(cell),
        _ => cell.work.run(cell).await,
    }
}

impl Inside {
    /// One more client of the store.
    pub(crate) async fn client(&self) -> Checked<Locks> {
        if self.engine == "memory" {
            return Ok(self.memory.get_or_init(Locks::memory).clone());
        }
        self.client_alone().await
    }

    /// One that nobody else has a share of.
    pub(crate) async fn client_alone(&self) -> Checked<Locks> {
        Ok(leasehold::open(self.url.clone()).await?)
    }

    /// One that keeps asking while nobody answers.
    pub(crate) async fn patient_client(&self) -> Checked<Locks> {
        Ok(leasehold::open(format!("{}?retry=forever:20ms", self.url)).await?)
    }

    /// Has the servers killed, and started again: until they are down.
    pub(crate) async fn await_servers_down() -> Checked {
        println!("{}", order::RESTART);
        Self::hear(order::DOWN).await
    }

    /// Until all are back.
    pub(crate) async fn await_servers_up() -> Checked {
        Self::hear(order::UP).await
    }

    /// The next word of whoever has the servers.
    async fn hear(word: &str) -> Checked {
        let said = spawn_blocking(|| stdin().lines().next()).await?.transpose()?;
        let why = || format!("the servers should be {word}, but: {said:?}");
        if said.as_deref() == Some(word) { Ok(()) } else { Err(why().into()) }
    }

    pub(crate) fn say(&self, key: &str, value: f64) {
        println!("{key} {value}");
    }

    /// A sum, as what it is for each of the crowd.
    pub(crate) fn say_each(&self, key: &str, sum: f64) {
        self.say(key, sum / self.size as f64);
    }

    /// For how long leases and places are asked.
    pub(crate) const fn ttl(&self) -> Duration {
        renewals::ttl(self.order.quick)
    }

    /// How long to look at what does not end by itself, and is not renewed.
    pub(crate) const fn look(&self) -> Duration {
        if self.order.quick { Duration::from_millis(200) } else { LOOK }
    }

    pub(crate) fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    pub(crate) fn server_memory(&self) -> Checked<u64> {
        procfs::memory(&procfs::families(&self.servers)?)
    }

    /// `HOST:PORT` of each server.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let place = self.url.split("://").nth(1).unwrap_or_default();
        let hosts = place.split(['/', '?']).next().unwrap_or_default();
        hosts.split(',').map(str::to_owned).collect()
    }
}
