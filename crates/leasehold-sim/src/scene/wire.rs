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

/// The state of a name with one holder is never larger than this.
const ROOM: usize = 600;

/// How long a server is away that restarts.
const DOWN: Duration = Duration::from_millis(50);

/// Redis servers.
#[derive(Debug)]
pub struct Wire {
    world: World,
    setting: Setting,
    /// The longest that a lease may have been asked to run.
    longest: Millis,
    names: Vec<String>,
    bites: Mutex<BTreeMap<&'static str, u64>>,
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
        // A clock that was set back lets everything run for longer.
        let back = schedule.faults.iter().filter(|fault| fault.kind == FaultKind::Freeze);
        let longest = longest + back.map(|fault| fault.span).sum::<Millis>();
        Arc::new(Self {
            world: world.clone(),
            setting: schedule.setting,
            longest,
            names: schedule.names().into_iter().collect(),
            bites: Mutex::default(),
        })
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
        for key in [&b"leasehold:{default}:record:p0"[..], b"leasehold:{default}:name:x0"] {
            world.node(0, |node| node.ask(&[b"SET", key, b"{\"a\": 1}"]));
        }
        self.bit(FaultKind::Poison);
    }

    /// As what a node holds this lease: the number of the mode, or 0.
    fn held_as(&self, node: usize, entry: &Entry) -> i64 {
        let Entry { name, label, .. } = entry;
        let (script, keys, label) = if self.setting.stage.is_quorum() {
            let keys = [
                format!("leasehold:default:{name}"),
                format!("leasehold-quorum:default:rw:{name}"),
            ];
            (NODE, keys, format!(":{}:{label}", label.len()))
        } else {
            let key = |kind| format!("leasehold:{{default}}:{kind}:{name}");
            (NATIVE, [key("name"), key("more")], label.clone())
        };
        let request = ["EVAL", script, "2", &keys[0], &keys[1], &label].map(str::as_bytes);
        match self.world.node(node, |node| node.ask(&request)) {
            Reply::Int(mode) => mode,
            _ => 0,
        }
    }
}

/// Scripts that look who holds a name.
const NATIVE: &str = include_str!("look/native.lua");
const NODE: &str = include_str!("look/node.lua");

const fn number(mode: Mode) -> i64 {
    match mode {
        Mode::Exclusive => 1,
        Mode::Read => 2,
        Mode::Write => 3,
        _ => 4,
    }
}

impl Truth for Wire {
    fn stand(&self, entry: &Entry, _: Millis) -> Stand {
        let nodes = usize::from(self.setting.stage.servers());
        let said: Vec<i64> = (0..nodes).map(|node| self.held_as(node, entry)).collect();
        // A conversion that is not known to have happened leaves a writer.
        let is_it =
            |mode: &&i64| **mode == number(entry.mode) || (**mode, entry.mode) == (3, Mode::Read);
        let votes = said.iter().filter(is_it).count();
        if votes > nodes / 2 {
            return Stand::Held;
        }
        Stand::Missing(format!("only {votes} of {nodes} servers hold it; their modes are {said:?}"))
    }

    fn has(&self, entry: &Entry) -> bool {
        (0..usize::from(self.setting.stage.servers())).any(|node| self.held_as(node, entry) != 0)
    }

    /// The guardrail alone says how long a lease may run. What is kept of it does
    /// not grow with what is done.
    fn overlong(&self) -> Option<String> {
        let size = |name: &String| {
            let key = format!("leasehold:{{default}}:name:{name}");
            match self.world.node(0, |node| node.ask(&[b"GET", key.as_bytes()])) {
                Reply::Bulk(text) => text.len(),
                _ => 0,
            }
        };
        let large = self.names.iter().map(|name| (size(name), name)).find(|(size, _)| *size > ROOM);
        large.map(|(size, name)| format!("{name} is kept in {size} bytes"))
    }

    fn released(&self, _: &str) -> Vec<u32> {
        Vec::new()
    }

    fn has_forgotten(&self) -> bool {
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
            FaultKind::Restart => world.restart_node(whom, DOWN, true),
            FaultKind::Poison => self.poison(world),
            FaultKind::Freeze => {
                let back = i64::try_from(fault.span).unwrap_or(0) * -1000;
                world.node(whom, |node| node.step_clock(back));
                self.bit(FaultKind::Freeze);
            }
            _ => {}
        }
    }

    /// Those that the network does not count.
    fn bit(&self, kind: FaultKind) {
        if matches!(kind, FaultKind::Poison | FaultKind::Freeze | FaultKind::Drift) {
            let mut bites = self.bites.lock().unwrap_or_else(PoisonError::into_inner);
            *bites.entry(kind.word()).or_default() += 1;
        }
    }

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

    /// What names and leases leave is seen by the last client.
    fn residue(&self, dead: &[u8]) -> Vec<String> {
        let clients = self.world.clients();
        let alive = (0..clients).filter(|it| !dead.iter().any(|dead| usize::from(*dead) == *it));
        let connected = alive.filter(|it| self.world.net(|net| net.connections_of(*it)) > 0);
        connected.map(|client| format!("client {client} is connected")).collect()
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
        bites.extend(&*self.bites.lock().unwrap_or_else(PoisonError::into_inner));
        bites
    }

    fn requests(&self) -> (u64, u64) {
        let nodes = 0..usize::from(self.setting.stage.servers());
        let all = nodes.map(|node| self.world.node(node, |node| node.commands())).sum();
        (all, self.world.net(|net| net.busiest()))
    }
}
