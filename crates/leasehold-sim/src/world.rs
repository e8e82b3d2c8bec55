//! A world: clients, nodes and the network between them, on one thread and a
//! virtual clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use leasehold::sim::Process;
use tokio::runtime::{Builder, Handle, RngSeed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::net::{Delays, Micros, Net, Parcel, Place, Way, dial};
use crate::redis::Node;
use crate::trace::{Event, Trace};

/// The network delivers one letter in this time, and everybody is idle in
/// between.
const TICK: Micros = 1_000;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For the chance of clients and of the runtime.
    pub seed: u64,
    /// How many nodes there are: `n0`, `n1` ..
    pub nodes: usize,
    /// What letters take.
    pub delays: Delays,
    /// Whether every command is written down.
    pub keeps_events: bool,
}

/// A handle to the world.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    start: Instant,
    seed: u64,
    inner: Mutex<Inner>,
    hook: Mutex<Option<Hook>>,
}

/// Called before each delivery, when nobody has anything left to do.
pub type Hook = Box<dyn FnMut(&World) + Send>;

pub(crate) struct Inner {
    pub(crate) net: Net,
    pub(crate) nodes: Vec<Node>,
    clients: Vec<Arc<Process>>,
    trace: Trace,
}

impl World {
    /// Runs `body` in a new world; the world ends with it.
    ///
    /// # Panics
    ///
    /// If the runtime cannot be built.
    pub fn run<T>(setup: Setup, body: impl AsyncFnOnce(Self) -> T) -> T {
        let seed = RngSeed::from_bytes(&setup.seed.to_le_bytes());
        let mut builder = Builder::new_current_thread();
        let builder = builder.enable_time().start_paused(true).rng_seed(seed);
        let runtime = builder.build().expect("a runtime without drivers");
        runtime.block_on(async {
            let world = Self::new(setup);
            let driver = Handle::current().spawn(world.clone().drive());
            let done = body(world.clone()).await;
            driver.abort();
            *world.hook() = None;
            done
        })
    }

    fn new(setup: Setup) -> Self {
        let inner = Inner {
            net: Net::new(setup.delays),
            nodes: (0..setup.nodes).map(Node::new).collect(),
            clients: Vec::new(),
            trace: Trace::new(setup.keeps_events),
        };
        Self(Arc::new(Shared {
            start: Instant::now(),
            seed: setup.seed,
            inner: Mutex::new(inner),
            hook: Mutex::default(),
        }))
    }

    /// Time since the world began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// The moment this long after the beginning.
    #[must_use]
    pub fn at(&self, span: Duration) -> Instant {
        self.0.start + span
    }

    /// Calls this before each delivery.
    pub fn each_step(&self, hook: impl FnMut(&Self) + Send + 'static) {
        *self.hook() = Some(Box::new(hook));
    }

    /// A new client; its number.
    #[must_use]
    pub fn add_client(&self, label: &str) -> usize {
        let weak = Arc::downgrade(&self.0);
        let number = self.inner().clients.len();
        let dial = Box::new(move |host: &str, _| dial_from(&weak, number, host));
        let seed = self.0.seed ^ (number as u64 + 1) << 48;
        let client = Process::new(label, seed, dial);
        self.inner().clients.push(client);
        number
    }

    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.inner().clients.len()
    }

    /// The process behind a number.
    #[must_use]
    pub fn client(&self, client: usize) -> Arc<Process> {
        Arc::clone(&self.inner().clients[client])
    }

    /// Starts a task of this client.
    pub fn spawn<T: Send + 'static>(
        &self,
        client: usize,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        Handle::current().spawn(self.client(client).run(task))
    }

    /// Looks at a node.
    pub fn node<T>(&self, node: usize, look: impl FnOnce(&mut Node) -> T) -> T {
        let now = self.micros();
        let mut inner = self.inner();
        inner.nodes[node].keep_time(now);
        look(&mut inner.nodes[node])
    }

    /// Looks at the network.
    pub fn net<T>(&self, look: impl FnOnce(&Net) -> T) -> T {
        look(&self.inner().net)
    }

    /// What has happened until now, in one number.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.inner().trace.hash()
    }

    /// Adds something to what has happened.
    pub fn note(&self, what: &[u8]) {
        let now = self.micros();
        self.inner().trace.note(now, what);
    }

    /// Every command and its answer, if they are kept.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.inner().trace.events().to_vec()
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inner, Micros) -> T) -> T {
        let now = self.micros();
        work(&mut self.inner(), now)
    }

    fn micros(&self) -> Micros {
        u64::try_from(self.now().as_micros()).unwrap_or(u64::MAX)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hook(&self) -> MutexGuard<'_, Option<Hook>> {
        self.0.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers letters, one at a time.
    async fn drive(self) {
        let bell = self.with(|inner, _| Arc::clone(&inner.net.bell));
        let mut earliest = 0;
        loop {
            let due = self.with(|inner, _| inner.net.next_due());
            let at = due.map(|due| due.max(earliest).next_multiple_of(TICK));
            if let Some(at) = at.filter(|at| *at <= self.micros()) {
                self.deliver_one();
                earliest = at.max(self.micros()) + TICK;
                continue;
            }
            tokio::select! {
                biased;
                () = sleep_until(self.at(Duration::from_micros(at.unwrap_or(0)))), if at.is_some() => {}
                () = bell.notified() => {}
            }
        }
    }

    fn deliver_one(&self) {
        let hook = self.hook().take();
        if let Some(mut hook) = hook {
            hook(self);
            self.hook().get_or_insert(hook);
        }
        self.with(|inner, now| {
            if let Some((id, way, parcel)) = inner.net.take_due(now) {
                inner.deliver(id, way, parcel, now);
            }
        });
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({:?})", self.now())
    }
}

fn dial_from(world: &Weak<Shared>, client: usize, host: &str) -> leasehold::sim::Dialed {
    let node = host.strip_prefix('n').and_then(|number| number.parse().ok());
    match (world.upgrade().map(World), node) {
        (Some(world), Some(node)) => dial(world, client, node),
        _ => Box::pin(async { Err(std::io::ErrorKind::NotFound.into()) }),
    }
}

impl Inner {
    fn deliver(&mut self, id: u64, way: Way, parcel: Parcel, now: Micros) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        if connection.is_hollow {
            // The client may give it up; the node does not know.
            if matches!(parcel, Parcel::Close) {
                self.net.connections.remove(&id);
            }
            return self.net.bite("half-open");
        }
        match way {
            Way::Back => connection.arrive(parcel),
            Way::There => self.reach_node(id, parcel, now),
        }
    }

    fn reach_node(&mut self, id: u64, parcel: Parcel, now: Micros) {
        let node = self.net.connections[&id].node;
        match parcel {
            Parcel::Open if self.nodes[node].is_up(now) => {
                self.net.send(id, Way::Back, Parcel::Accepted, now);
            }
            Parcel::Open => {
                self.net.bite("refused");
                self.net.send(id, Way::Back, Parcel::Refused, now);
            }
            Parcel::Bytes(bytes) => self.serve(id, &bytes, now),
            _ => self.hang_up(id),
        }
    }

    /// The node reads, and answers what is complete.
    fn serve(&mut self, id: u64, bytes: &[u8], now: Micros) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        connection.heard.extend(bytes);
        let mut heard = std::mem::take(&mut connection.heard);
        let (client, number) = (connection.client, connection.node);
        let (mut answers, mut read) = (Vec::new(), 0);
        while let Some((request, size)) = crate::redis::parse(&heard[read..]) {
            read += size;
            let node = &mut self.nodes[number];
            node.keep_time(now);
            self.net.asked(client, now);
            let start = answers.len();
            let answer = node.serve(id, &request, &mut answers);
            let written = Event { at: now, client, node: number, connection: id, request, answer };
            self.trace.command(written, &answers[start..]);
        }
        heard.drain(..read);
        let hears = self.nodes[number].hears(id);
        if let Some(connection) = self.net.connections.get_mut(&id) {
            connection.heard = heard;
            connection.is_for_pushes |= hears;
        }
        if !answers.is_empty() {
            self.net.send(id, Way::Back, Parcel::Bytes(answers), now);
        }
        self.push(number, now);
    }

    /// Tells those who have subscribed.
    fn push(&mut self, node: usize, now: Micros) {
        let told = self.nodes[node].pushes();
        self.tell(told, now);
    }

    pub(crate) fn tell(&mut self, told: Vec<(u64, Vec<u8>)>, now: Micros) {
        for (id, bytes) in told {
            self.net.send(id, Way::Back, Parcel::Bytes(bytes), now);
        }
    }

    /// The client has closed a connection, or is gone.
    fn hang_up(&mut self, id: u64) {
        if let Some(it) = self.net.connections.remove(&id) {
            self.nodes[it.node].forget(id);
        }
    }

    /// Breaks connections, whatever is under way on them.
    fn cut(&mut self, place: Place) -> u64 {
        let all = self.net.at(place);
        for id in &all {
            let Some(it) = self.net.connections.get_mut(id) else { continue };
            it.break_off();
            self.nodes[it.node].forget(*id);
        }
        all.len() as u64
    }
}

/// What goes wrong.
impl World {
    /// A node reads nothing for this long. Its kernel takes connections.
    pub fn pause_node(&self, node: usize, span: Duration) {
        self.with(|inner, now| inner.net.pause(node, now + micros(span)));
    }

    /// What is sent on these connections waits for this long, also on those
    /// that are made meanwhile; both ways if none is given.
    pub fn silence(&self, place: Place, way: Option<Way>, span: Duration) {
        self.with(|inner, now| inner.net.silence(place, way, now, now + micros(span)));
    }

    /// Breaks these connections; both sides know it at once.
    pub fn cut(&self, place: Place) {
        self.with(|inner, _| {
            for _ in 0..inner.cut(place) {
                inner.net.bite("cut");
            }
        });
    }

    /// These connections vanish and nobody is told; new ones can be made.
    pub fn hollow(&self, place: Place) {
        self.with(|inner, _| inner.net.hollow(place));
    }

    /// A node ends, and is back after this long, with what it had or without.
    pub fn restart_node(&self, node: usize, down: Duration, keeps: bool) {
        self.with(|inner, now| {
            inner.cut(Place::of_node(node));
            inner.net.bite("restart");
            if inner.nodes[node].restart(now, now + micros(down), keeps) {
                inner.net.bite("forgot");
            }
        });
    }

    /// Ends a process. Its kernel closes the connections.
    pub fn kill(&self, client: usize) {
        self.client(client).kill();
        self.with(|inner, now| {
            inner.net.bite("kill");
            for id in inner.net.at(Place::of_client(client)) {
                inner.net.send(id, Way::There, Parcel::Close, now);
            }
        });
    }

    /// Ends a machine: nobody closes anything.
    pub fn vanish(&self, client: usize) {
        self.client(client).kill();
        self.with(|inner, _| {
            inner.net.bite("vanish");
            inner.net.hollow(Place::of_client(client));
        });
    }

    /// Stops a client for this long; its clock goes on.
    pub fn stop(&self, client: usize, span: Duration) {
        let it = self.client(client);
        it.stop();
        self.with(|inner, _| inner.net.bite("stop"));
        let until = self.at(self.now() + span);
        Handle::current().spawn(async move {
            sleep_until(until).await;
            it.go_on();
        });
    }
}

fn micros(span: Duration) -> Micros {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 2)
}
