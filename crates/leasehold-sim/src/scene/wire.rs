//! The scene of the wire level: the Redis engines, with their scripts, on
//! simulated connections to simulated servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::engine::BoxFuture;
use leasehold::{Locks, Mode, Result};

use super::Scene;
use crate::ledger::{Entry, Ledger, Stand, Truth};
use crate::net::{Lane, Place, Way};
use crate::redis::Reply;
use crate::schedule::{Act, Fault, FaultKind, Millis, Schedule, Setting, Stage};
use crate::world::World;

/// Redis servers.
#[derive(Debug)]
pub struct Wire {
    world: World,
    setting: Setting,
    /// The longest that a lease may have been asked to run.
    longest: Millis,
    poisoned: Mutex<u64>,
}

impl Wire {
    /// The scene of this schedule.
    #[must_use]
    pub fn new(world: &World, schedule: &Schedule) -> Arc<Self> {
        let asked = |act: &Act| match act {
            Act::Extend(_, by) => *by,
            Act::Ask(ask) => ask.ttl.unwrap_or(0) + ask.delay,
            _ => 0,
        };
        let longest = schedule.steps.iter().map(|step| asked(&step.act)).max().unwrap_or(0);
        let setting = schedule.setting;
        let poisoned = Mutex::default();
        Arc::new(Self { world: world.clone(), setting, longest, poisoned })
    }

    fn url(&self) -> String {
        let Setting { stage, timeout, retries, .. } = self.setting;
        let pause = timeout / 4 + 1;
        let common = format!("timeout={timeout}ms&retry=times:{retries},{pause}ms");
        let nodes: Vec<String> = (0..stage.servers()).map(|node| format!("n{node}")).collect();
        match stage {
            Stage::Redlock(_) => {
                let patience = timeout / 3 + 10;
                let nodes = nodes.join(",");
                format!("redlock://{nodes}?{common}&quarantine=0s&node_timeout={patience}ms")
            }
            _ => format!("redis://n0?{common}"),
        }
    }

    fn poison(&self, world: &World) {
        let key = b"leasehold:{default}:record:p0";
        world.node(0, |node| node.ask(&[b"SET", key, b"{\"a\": 1}"]));
        *self.poisoned.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Whether the key of a mutex on this node is this lease's.
    fn has(&self, node: usize, entry: &Entry) -> bool {
        let key = format!("leasehold:default:{}", entry.name);
        let value = self.world.node(node, |node| node.ask(&[b"GET", key.as_bytes()]));
        let Reply::Bulk(value) = value else { return false };
        let text = format!(":{}:{}", entry.label.len(), entry.label);
        value.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

impl Truth for Wire {
    /// What native scripts pack is theirs; the key of a mutex in a quorum is
    /// plain to see.
    fn stand(&self, entry: &Entry, _: Millis) -> Stand {
        if !self.setting.stage.is_quorum() || entry.mode != Mode::Exclusive {
            return Stand::Unknown;
        }
        let nodes = usize::from(self.setting.stage.servers());
        let votes = (0..nodes).filter(|node| self.has(*node, entry)).count();
        if votes > nodes / 2 {
            return Stand::Held;
        }
        Stand::Missing(format!("only {votes} of {nodes} nodes hold it"))
    }

    /// The guardrail alone says how long a lease may run.
    fn overlong(&self) -> Option<String> {
        None
    }

    fn is_released(&self, _: &str) -> bool {
        false
    }
}

impl Scene for Wire {
    fn open(&self, _: u8) -> BoxFuture<Result<Locks>> {
        leasehold::open(self.url()).into_future()
    }

    fn fault(&self, world: &World, fault: Fault) {
        let (whom, span) = (usize::from(fault.whom), Duration::from_millis(fault.span));
        let client = Place::of_client(whom);
        let commands = client.only(Lane::Commands);
        match fault.kind {
            FaultKind::Mute => world.silence(commands, Some(Way::There), span),
            FaultKind::Deaf => world.silence(commands, Some(Way::Back), span),
            FaultKind::Unrung => world.silence(client.only(Lane::Pushes), Some(Way::Back), span),
            FaultKind::Stall => world.pause_node(whom, span),
            FaultKind::Cut => world.cut(client),
            FaultKind::Poison => self.poison(world),
            _ => {}
        }
    }

    fn bit(&self, _: FaultKind) {}

    fn begin(self: Arc<Self>, world: &World, ledger: Arc<Ledger>) {
        world.each_step(move |world| {
            let now = u64::try_from(world.now().as_millis()).unwrap_or(u64::MAX);
            ledger.check(&*self, now);
        });
    }

    fn linger(&self) -> Duration {
        let Setting { ttl, timeout, .. } = self.setting;
        Duration::from_millis(self.longest + 4 * ttl + 20 * timeout + 5000)
    }

    /// What names and leases leave is seen by the last client. Connections are
    /// not looked at yet.
    fn residue(&self, _: &[u8]) -> Vec<String> {
        Vec::new()
    }

    fn has_forgotten(&self) -> bool {
        false
    }

    fn bites(&self) -> BTreeMap<&'static str, u64> {
        let bites = self.world.net(|net| net.bites().clone());
        let word = |word: &'static str| match word {
            "pause" => FaultKind::Stall.word(),
            "stop" => FaultKind::Pause.word(),
            other => other,
        };
        let mut bites: BTreeMap<_, _> =
            bites.into_iter().map(|(kind, count)| (word(kind), count)).collect();
        let poisoned = *self.poisoned.lock().unwrap_or_else(PoisonError::into_inner);
        if poisoned > 0 {
            bites.insert(FaultKind::Poison.word(), poisoned);
        }
        bites
    }

    fn requests(&self) -> (u64, u64) {
        let nodes = 0..usize::from(self.setting.stage.servers());
        let all = nodes.map(|node| self.world.node(node, |node| node.commands())).sum();
        (all, 0)
    }
}
