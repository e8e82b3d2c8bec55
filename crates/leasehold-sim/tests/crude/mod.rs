//! A crude generator: three clients that lock two names, and one kind of fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Guard, Locks};
use leasehold_sim::net::{Delays, Lane, Place, Way};
use leasehold_sim::world::{Setup, World};
use tokio::time::{sleep_until, timeout_at};

/// What goes wrong, or what is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Nodes read nothing for a while.
    Pauses,
    /// The answers to one client's commands are late.
    Silence,
    /// Nothing fails, but leases are extended by any span.
    Extensions,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) url: &'static str,
    pub(crate) nodes: usize,
    pub(crate) ttl: Duration,
    pub(crate) trouble: Trouble,
    pub(crate) length: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) trace: u64,
    pub(crate) grants: u64,
    pub(crate) bites: BTreeMap<&'static str, u64>,
    /// Pairs of guards that were good for one name at once.
    pub(crate) overlaps: Vec<String>,
}

type Guards = Arc<Mutex<Vec<(usize, String, Arc<Guard>)>>>;

pub(crate) fn run(case: Case, seed: u64) -> Outcome {
    let delays = Delays::seeded(seed);
    let setup = Setup { seed, nodes: case.nodes, delays, keeps_events: false };
    World::run(setup, async |world| {
        let (guards, outcome) = (Guards::default(), Arc::new(Mutex::new(Outcome::default())));
        let clients = [0, 1, 2].map(|number| world.add_client(&format!("c{number}")));
        let memory = || world.client(0).enter(Locks::memory);
        let shared = (case.url == "memory:").then(memory);
        let mut tasks = Vec::new();
        for (number, client) in (0..3).zip(clients) {
            let user = User {
                world: world.clone(),
                number: client,
                case,
                guards: Arc::clone(&guards),
                outcome: Arc::clone(&outcome),
                chance: fastrand::Rng::with_seed(seed * 31 + number),
            };
            tasks.push(world.spawn(client, user.live(shared.clone())));
        }
        let end = world.at(case.length);
        let trouble = trouble(&world, case, fastrand::Rng::with_seed(seed ^ 0xfa17));
        let _ = timeout_at(end, trouble).await;
        for task in tasks {
            let _ = timeout_at(end, task).await;
        }
        world.client(0).enter(|| drop(shared));
        for (client, _, guard) in guards.lock().unwrap().drain(..) {
            world.client(client).enter(|| drop(guard));
        }
        let mut outcome = std::mem::take(&mut *outcome.lock().unwrap());
        outcome.trace = world.trace();
        outcome.bites = world.net(|net| net.bites().clone());
        outcome
    })
}

async fn trouble(world: &World, case: Case, mut chance: fastrand::Rng) {
    let mut at = Duration::ZERO;
    loop {
        at += Duration::from_millis(chance.u64(50..2_000));
        sleep_until(world.at(at)).await;
        match case.trouble {
            Trouble::None | Trouble::Extensions => return,
            Trouble::Pauses => {
                let (span, who) = (Duration::from_millis(chance.u64(50..600)), chance.usize(1..8));
                for node in (0..case.nodes).filter(|node| who >> node & 1 == 1) {
                    world.pause_node(node, span);
                }
            }
            Trouble::Silence => {
                let span = case.ttl.mul_f64(0.2 + chance.f64() * 3.0);
                let place = Place::of_client(chance.usize(..3)).only(Lane::Commands);
                world.silence(place, Some(Way::Back), span);
            }
        }
    }
}

struct User {
    world: World,
    number: usize,
    case: Case,
    guards: Guards,
    outcome: Arc<Mutex<Outcome>>,
    chance: fastrand::Rng,
}

impl User {
    async fn live(mut self, shared: Option<Locks>) {
        let locks = match shared {
            Some(locks) => locks,
            None => match leasehold::open(self.case.url).await {
                Ok(locks) => locks,
                Err(error) => return self.world.note(format!("{error:?}").as_bytes()),
            },
        };
        while self.world.now() < self.case.length.mul_f64(0.8) {
            self.turn(&locks).await;
            self.rest(40).await;
        }
    }

    async fn turn(&mut self, locks: &Locks) {
        let name = format!("n{}", self.chance.u32(..2));
        let mutex = locks.mutex(&name).ttl(self.case.ttl);
        let got = match self.chance.u32(..3) {
            0 => mutex.try_lock().await.ok().flatten(),
            _ => mutex.lock().within(Duration::from_secs(20)).await.ok(),
        };
        let Some(guard) = got else { return };
        let guard = Arc::new(guard);
        self.note(&name, &guard);
        if self.case.trouble == Trouble::Extensions && self.chance.u32(..4) == 0 {
            let span = Duration::from_millis([0, 1_000, 10_000, 600_000][self.chance.usize(..4)]);
            let _ = guard.extend(span).await;
        }
        let long = if self.chance.u32(..8) == 0 { 1_500 } else { 0 };
        self.rest(60 + long).await;
        self.guards.lock().unwrap().retain(|(_, _, other)| !Arc::ptr_eq(other, &guard));
        if let Some(guard) = Arc::into_inner(guard) {
            let _ = guard.release().await;
        }
    }

    fn note(&self, name: &str, guard: &Arc<Guard>) {
        let fence = guard.fence();
        let mut guards = self.guards.lock().unwrap();
        let mut outcome = self.outcome.lock().unwrap();
        outcome.grants += 1;
        self.world.note(format!("{} {name} {fence}", self.number).as_bytes());
        for (client, _, other) in guards.iter().filter(|(_, held, _)| held == name) {
            let owner = self.world.client(*client);
            if owner.enter(|| other.check().is_ok()) {
                let (now, number) = (self.world.now(), self.number);
                outcome.overlaps.push(format!("{now:?} {name}: c{client} and c{number}"));
            }
        }
        guards.push((self.number, name.to_owned(), Arc::clone(guard)));
    }

    async fn rest(&mut self, most: u64) {
        let span = Duration::from_millis(self.chance.u64(..most) + 1);
        sleep_until(self.world.at(self.world.now() + span)).await;
    }
}
