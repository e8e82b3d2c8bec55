//! The scene of the contract level: the pure core behind a bus, once or as the
//! members of a quorum.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::engine::{BoxFuture, Engine, Held};
use leasehold::sim::Process;
use leasehold::{Locks, Mode, Result, Retry, staged};
use tokio::runtime::Handle;

use super::Scene;
use crate::engine::SimEngine;
use crate::engine::bus::Bus;
use crate::engine::server::Server;
use crate::ledger::{Entry, Ledger, Stand, Truth};
use crate::schedule::{Fault, FaultKind, Millis, Setting};
use crate::story::Story;
use crate::world::World;

/// One or several servers of the pure core.
#[derive(Debug)]
pub struct Contract {
    setting: Setting,
    bus: Arc<Bus>,
}

impl Contract {
    /// The scene of this setting.
    #[must_use]
    pub fn new(setting: Setting, story: &Arc<Story>) -> Arc<Self> {
        let servers = (0..setting.stage.servers()).map(|number| server(&setting, number));
        let bus = Bus::new(setting, servers.collect(), Arc::clone(story));
        Arc::new(Self { setting, bus })
    }

    fn engine(&self, client: u8, server: u8) -> Arc<dyn Engine> {
        let Setting { timeout, ttl_max, .. } = self.setting;
        let (timeout, ttl_max) = (Duration::from_millis(timeout), Duration::from_millis(ttl_max));
        Arc::new(SimEngine::new(&self.bus, client, server, timeout, ttl_max))
    }

    /// What one server says about a lease that its user believes in.
    fn verdict(server: &Server, entry: &Entry) -> Option<String> {
        let holders = server.holders(&entry.name);
        let held = holders.iter().find(|held| *held.label == *entry.label);
        match held {
            // A conversion that is not known to have happened.
            Some(held) if held.mode == Mode::Write && entry.mode == Mode::Read => None,
            Some(held) if held.mode == entry.mode => None,
            Some(held) => Some(format!("it is held as {}", held.mode)),
            None => Some("it has ended".into()),
        }
    }
}

fn server(setting: &Setting, number: u8) -> Server {
    let nowhere = Box::new(|_: &str, _| -> leasehold::sim::Dialed {
        Box::pin(async { Err(std::io::ErrorKind::NotFound.into()) })
    });
    let seed = setting.seed ^ u64::from(number) << 32 ^ 0x5e4e;
    Server::new(Process::new(format!("server {number}"), seed, nowhere))
}

impl Truth for Contract {
    fn stand(&self, entry: &Entry, _: Millis) -> Stand {
        let evicted = |server: &Server| server.has_evicted(&entry.label);
        let evicted = self.bus.servers(|servers| servers.iter().any(evicted));
        if evicted || self.bus.forgot().is_some_and(|at| at >= entry.since) {
            return Stand::Unknown;
        }
        let said: Vec<Option<String>> = self
            .bus
            .servers(|servers| servers.iter().map(|server| Self::verdict(server, entry)).collect());
        let votes = said.iter().filter(|wrong| wrong.is_none()).count();
        if votes > said.len() / 2 {
            return Stand::Held;
        }
        let wrong: Vec<String> = said.into_iter().flatten().collect();
        Stand::Missing(wrong.join(", "))
    }

    /// A claim that is repeated after its release is another grant.
    fn has(&self, entry: &Entry) -> bool {
        let is_it = |held: &Held| *held.label == *entry.label && held.fence == Some(entry.fence);
        self.bus.servers(|all| all.iter().any(|it| it.holders(&entry.name).iter().any(is_it)))
    }

    /// A quorum has limits of its own, whatever its members take.
    fn overlong(&self) -> Option<String> {
        if self.setting.stage.is_quorum() {
            return None;
        }
        let longest = self.bus.servers(|servers| servers.iter().map(Server::longest).max())?;
        let most = Duration::from_millis(self.setting.ttl_max);
        let how = || format!("a lease is to run for {longest:?}, and {most:?} is the most");
        (longest > most).then(how)
    }

    fn released(&self, label: &str) -> Vec<u32> {
        self.bus.servers(|servers| servers.iter().map(|server| server.released(label)).collect())
    }

    fn has_forgotten(&self) -> bool {
        self.bus.forgot().is_some()
    }
}

impl Scene for Contract {
    fn open(&self, client: u8) -> BoxFuture<Result<Locks>> {
        let pause = Duration::from_millis(self.setting.timeout / 4 + 1);
        let retry = Retry::times(self.setting.retries, pause);
        let servers = 0..self.setting.stage.servers();
        let mut engines: Vec<_> = servers.map(|server| self.engine(client, server)).collect();
        let is_quorum = self.setting.stage.is_quorum();
        // Shorter than a request may take: a round does not wait for all of it. The
        // network delivers one message in a millisecond, and a round has 24.
        let Setting { timeout, slowest, .. } = self.setting;
        let patience = Duration::from_millis((timeout / 3 + 30).max(14 * slowest));
        Box::pin(async move {
            let engine = match engines.pop() {
                Some(engine) if !is_quorum => engine,
                last => {
                    engines.extend(last);
                    staged::quorum(engines, patience).await?
                }
            };
            staged::locks(engine, retry)
        })
    }

    fn fault(&self, _: &World, fault: Fault) {
        match fault.kind {
            FaultKind::Freeze => self.clock(fault, -999_999),
            FaultKind::Rush => self.clock(fault, i64::try_from(fault.by).unwrap_or(0)),
            _ => self.bus.fault(fault),
        }
    }

    fn bit(&self, kind: FaultKind) {
        self.bus.bit(kind);
    }

    fn begin(self: Arc<Self>, _: &World, ledger: Arc<Ledger>) {
        let bus = Arc::clone(&self.bus);
        let now = Arc::clone(&self.bus);
        let look = move || ledger.check(&*self, now.now());
        Handle::current().spawn(bus.run(look));
    }

    fn linger(&self) -> Duration {
        let longest = self.bus.servers(|servers| servers.iter().map(Server::longest).max());
        let Setting { ttl, timeout, .. } = self.setting;
        // A lock delay is no longer than a ttl, and so is a place in the queue.
        longest.unwrap_or_default() + Duration::from_millis(3 * ttl + 10 * timeout + 5000)
    }

    fn residue(&self, dead: &[u8]) -> Vec<String> {
        let left: Vec<Vec<String>> =
            self.bus.servers(|servers| servers.iter().map(Server::left).collect());
        let connected = self.bus.connected().into_iter().filter(|client| !dead.contains(client));
        let connected = connected.map(|client| format!("client {client} is connected"));
        left.into_iter().flatten().chain(connected).collect()
    }

    fn bites(&self) -> BTreeMap<&'static str, u64> {
        self.bus.bites().into_iter().map(|(kind, count)| (kind.word(), count)).collect()
    }

    fn requests(&self) -> (u64, u64) {
        (self.bus.requests(), self.bus.busiest())
    }
}

impl Contract {
    /// The clock of a server goes at another speed; for a while, if there is a span.
    fn clock(&self, fault: Fault, gain: i64) {
        let process = self.bus.servers(|all| Arc::clone(&all[usize::from(fault.whom)].process));
        process.drift(gain);
        self.bus.bit(fault.kind);
        if fault.span > 0 {
            Handle::current().spawn(async move {
                tokio::time::sleep(Duration::from_millis(fault.span)).await;
                process.drift(0);
            });
        }
    }
}
