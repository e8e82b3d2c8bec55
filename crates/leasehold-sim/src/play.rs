//! Plays a schedule: the users and the faults on their scene, and the checks at
//! the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::ledger::{Broken, Ledger, Truth};
use crate::net::Delays;
use crate::scene::{Contract, Scene, Wire};
use crate::schedule::{Act, Fault, FaultKind, PERMITS, Schedule, Setting, Stage, Step, User};
use crate::story::Story;
use crate::users::{Surroundings, live};
use crate::world::{Setup, World};

/// No user needs longer than this for what it has left to do.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(25);
/// More requests than this in a second, by one client, are a storm.
const STORM: u64 = 700;

/// What came of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The promises that were broken.
    pub broken: Vec<Broken>,
    /// The same for the same run only.
    pub trace: u64,
    /// What happened, if it was to be told.
    pub story: Vec<String>,
    /// How often each kind of fault has bitten.
    pub bites: BTreeMap<&'static str, u64>,
    /// Guards that users have had.
    pub grants: u64,
    /// Requests that servers have had.
    pub requests: u64,
}

/// Plays it from beginning to end, or until a promise is broken.
#[must_use]
pub fn play(schedule: &Schedule, tells: bool) -> Outcome {
    let Setting { seed, stage, quickest, slowest, .. } = schedule.setting;
    let nodes = match stage {
        Stage::Contract | Stage::Members(_) => 0,
        Stage::Redis | Stage::Redlock(_) => usize::from(stage.servers()),
    };
    let delays = if slowest > quickest { Delays::seeded(seed) } else { Delays::constant(500) };
    let setup = Setup { seed, nodes, delays, keeps_events: false };
    World::run(setup, async |world| {
        let story = Arc::new(Story::new(tells));
        if nodes > 0 {
            let scene = Wire::new(&world, schedule);
            return Play::new(world, scene, schedule.clone(), story).run().await;
        }
        let scene = Contract::new(schedule.setting, &story);
        Play::new(world, scene, schedule.clone(), story).run().await
    })
}

/// A play that is going on.
struct Play<S: Scene> {
    world: World,
    scene: Arc<S>,
    schedule: Schedule,
    story: Arc<Story>,
    ledger: Arc<Ledger>,
    clients: Vec<(u8, JoinHandle<()>)>,
}

impl<S: Scene> Play<S> {
    fn new(world: World, scene: Arc<S>, schedule: Schedule, story: Arc<Story>) -> Self {
        let ledger = Ledger::new(Arc::clone(&story));
        Self { world, scene, schedule, story, ledger, clients: Vec::new() }
    }

    async fn run(mut self) -> Outcome {
        for client in 0..self.schedule.clients() {
            let number = self.world.add_client(&format!("client {client}"));
            debug_assert_eq!(number, usize::from(client), "clients come first");
        }
        Arc::clone(&self.scene).begin(&self.world, Arc::clone(&self.ledger));
        for client in 0..self.schedule.clients() {
            let handle = self.start(client);
            self.clients.push((client, handle));
        }
        let trouble = Handle::current().spawn(self.trouble());
        self.wait().await;
        trouble.abort();
        if self.ledger.broken().is_empty() {
            self.look_back().await;
        }
        self.end()
    }

    /// Opens a client, and lets its users live.
    fn start(&self, client: u8) -> JoinHandle<()> {
        let (world, scene) = (self.world.clone(), Arc::clone(&self.scene));
        let (schedule, around) = (self.schedule.clone(), self.around(client));
        self.world.spawn(usize::from(client), async move {
            let Ok(locks) = scene.open(client).await else { return };
            let users = programs(&schedule, client);
            let lives: Vec<JoinHandle<()>> = users
                .into_iter()
                .map(|(user, steps)| {
                    let life = live(user, locks.clone(), around.clone(), steps);
                    world.spawn(usize::from(client), life)
                })
                .collect();
            drop(locks);
            for life in lives {
                if life.await.is_err() {
                    around.ledger.breaks("panic", format!("a user of client {client} panicked"));
                }
            }
        })
    }

    fn around(&self, client: u8) -> Surroundings {
        let truth: Arc<dyn Truth + Send + Sync> = Arc::clone(&self.scene) as _;
        let ends = |step: &Step| matches!(step.act, Act::Shutdown(_) | Act::Evict(_));
        let Setting { stage, quickest, slowest, .. } = self.schedule.setting;
        // On a wire some letters take longer than any time-out.
        let slow = matches!(stage, Stage::Redis | Stage::Redlock(_)) && slowest > quickest;
        let quiet = self.schedule.faults.is_empty() && !self.schedule.steps.iter().any(ends);
        let calm = quiet && !slow;
        Surroundings {
            calm,
            setting: self.schedule.setting,
            base: self.world.at(Duration::ZERO),
            process: self.world.client(usize::from(client)),
            ledger: Arc::clone(&self.ledger),
            truth,
            story: Arc::clone(&self.story),
        }
    }

    /// Brings the faults, each at its time.
    fn trouble(&self) -> impl Future<Output = ()> + Send + use<S> {
        let mut faults = self.schedule.faults.clone();
        faults.sort_by_key(|fault| fault.at);
        let (world, scene) = (self.world.clone(), Arc::clone(&self.scene));
        let (story, ledger) = (Arc::clone(&self.story), Arc::clone(&self.ledger));
        async move {
            for fault in faults {
                sleep_until(world.at(Duration::from_millis(fault.at))).await;
                story.tell(|| format!("FAULT {fault}"));
                bring(&world, &*scene, &ledger, fault);
            }
        }
    }

    /// Until every client that lives is done, or a promise is broken.
    async fn wait(&self) {
        let limit = self.limit();
        while self.ledger.broken().is_empty() {
            let busy = |(client, handle): &&(u8, JoinHandle<()>)| {
                !handle.is_finished() && !self.world.client(usize::from(*client)).is_dead()
            };
            let Some((client, _)) = self.clients.iter().find(busy) else { return };
            if Instant::now() > limit {
                let how = format!("a user of client {client} never came back");
                return self.ledger.breaks("I8", how);
            }
            sleep(LOOK).await;
        }
    }

    fn limit(&self) -> Instant {
        self.world.at(Duration::from_millis(self.schedule.last()) + PATIENCE)
    }

    /// After the last client and a linger nothing is left: I7. And what recipes
    /// promise about the whole of a run.
    async fn look_back(&self) {
        let (_, most) = self.scene.requests();
        if most > STORM {
            self.ledger.breaks("storm", format!("{most} requests of one client in a second"));
        }
        sleep(self.scene.linger()).await;
        let dead: Vec<u8> = (0..self.schedule.clients())
            .filter(|client| self.world.client(usize::from(*client)).is_dead())
            .collect();
        if let Some(left) = self.scene.residue(&dead).first() {
            self.ledger.breaks("I7", left.clone());
        }
        self.probe().await;
    }

    /// One more client finds all names free, and the numbers right: I8.
    async fn probe(&self) {
        let number = self.world.add_client("probe");
        let (scene, ledger) = (Arc::clone(&self.scene), Arc::clone(&self.ledger));
        let names = self.schedule.names();
        let ttl = Duration::from_millis(self.schedule.setting.ttl);
        let probe = self.world.spawn(number, async move {
            let client = u8::try_from(number).unwrap_or(u8::MAX);
            let Ok(locks) = scene.open(client).await else { return };
            for name in names.into_iter().filter(|name| !name.starts_with('x')) {
                if let Some(how) = taken(&locks, &name, ttl).await {
                    ledger.breaks("I8", how);
                }
            }
            if !scene.has_forgotten() {
                recount(&locks, &ledger).await;
            }
        });
        let limit = Instant::now() + PATIENCE;
        if !matches!(timeout_at(limit, probe).await, Ok(Ok(()))) {
            self.ledger.breaks("I8", "the last client never came back");
        }
    }

    fn end(self) -> Outcome {
        Outcome {
            broken: self.ledger.broken(),
            trace: self.story.trace() ^ self.world.trace(),
            story: self.story.lines(),
            bites: self.scene.bites(),
            grants: self.ledger.grants(),
            requests: self.scene.requests().0,
        }
    }
}

/// Why a name that nobody has is not given to one more, who is patient.
async fn taken(locks: &Locks, name: &str, ttl: Duration) -> Option<String> {
    let mut why = None;
    for _ in 0..5 {
        let lock = match name.as_bytes().first() {
            Some(b'r') => locks.rwlock(name).ttl(ttl).write(),
            Some(b's') => locks.semaphore(name, PERMITS).ttl(ttl).acquire(PERMITS),
            _ => locks.mutex(name).ttl(ttl).lock(),
        };
        match lock.within(Duration::from_secs(10)).await {
            Ok(_) => return None,
            Err(error) => why = Some(format!("{name} is not given to one more client: {error}")),
        }
    }
    why
}

async fn recount(locks: &Locks, ledger: &Ledger) {
    for name in ledger.tallies(|tallies| tallies.counters()) {
        match count_of(locks, &name).await {
            Err(why) => ledger.breaks("count", format!("{name} cannot be read: {why}")),
            Ok(shows) => {
                if let Some(how) = ledger.tallies(|tallies| tallies.miscounted(&name, shows)) {
                    ledger.breaks("count", how);
                }
            }
        }
    }
}

/// What a counter shows, to one who is patient.
async fn count_of(locks: &Locks, name: &str) -> Result<u64, leasehold::Error> {
    let record = locks.record::<u64>(name);
    for _ in 0..4 {
        if let Ok(found) = record.get().await {
            return Ok(found.map_or(0, |found| found.value));
        }
    }
    Ok(record.get().await?.map_or(0, |found| found.value))
}

fn programs(schedule: &Schedule, client: u8) -> BTreeMap<User, Vec<Step>> {
    let mut programs: BTreeMap<User, Vec<Step>> = BTreeMap::new();
    for step in schedule.steps.iter().filter(|step| step.user.client == client) {
        programs.entry(step.user).or_default().push(step.clone());
    }
    programs
}

fn bring<S: Scene>(world: &World, scene: &S, ledger: &Ledger, fault: Fault) {
    let client = usize::from(fault.whom);
    if matches!(fault.kind, FaultKind::Pause | FaultKind::Kill | FaultKind::Drift) {
        scene.bit(fault.kind);
    }
    match fault.kind {
        FaultKind::Pause => world.stop(client, Duration::from_millis(fault.span)),
        FaultKind::Kill => {
            world.kill(client);
            ledger.bury(fault.whom);
        }
        FaultKind::Drift => {
            let gain = i64::try_from(fault.by).unwrap_or(0);
            world.client(client).drift(-gain);
        }
        _ => scene.fault(world, fault),
    }
}
