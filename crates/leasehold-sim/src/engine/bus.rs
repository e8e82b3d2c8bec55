//! The bus: messages on their way, one delivered per virtual millisecond.
//!
//! That makes a total order of everything, with all tasks at rest in between.
//! How long a message takes depends on who sends it and on its number, not on
//! what others do: a step that is left out moves nobody else's messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::claim::LeaseId;
use leasehold::engine::Event;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::bells::{Bells, Push};
use super::server::Server;
use super::trouble::{Bites, Troubles};
use crate::schedule::{Fault, FaultKind, Millis, Setting};
use crate::story::Story;

/// How long nothing happens before the invariants are looked at again.
const LOOK: Millis = 20;

/// One request, as its sender made it.
pub struct Call<T> {
    what: String,
    ask: Ask<T>,
    show: fn(&T) -> String,
    /// Whether the network may deliver it twice.
    again: bool,
}

type Ask<T> = Arc<dyn Fn(&mut Server, u8) -> T + Send + Sync>;

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&self.what).finish()
    }
}

impl<T> Call<T> {
    /// A request that may arrive twice.
    pub fn again(
        what: String,
        ask: impl Fn(&mut Server, u8) -> T + Send + Sync + 'static,
        show: fn(&T) -> String,
    ) -> Self {
        Self { what, ask: Arc::new(ask), show, again: true }
    }

    /// A request that arrives once at most.
    pub fn once(
        what: String,
        ask: impl Fn(&mut Server, u8) -> T + Send + Sync + 'static,
        show: fn(&T) -> String,
    ) -> Self {
        Self { again: false, ..Self::again(what, ask, show) }
    }
}

/// Something that is told when its time has come.
type Tell = Box<dyn FnOnce() + Send>;
/// What a server does with a request: what it says, and how it is told.
type Serve = Box<dyn FnOnce(&mut Server) -> (String, Tell) + Send>;

struct Message {
    client: u8,
    server: u8,
    what: String,
    cargo: Cargo,
}

enum Cargo {
    Request(Serve),
    Reply(Tell),
    Push(Push),
}

/// The network between all clients and all servers of a run.
pub struct Bus {
    state: Mutex<State>,
    posted: Notify,
    story: Arc<Story>,
}

struct State {
    setting: Setting,
    base: Instant,
    due: BTreeMap<Millis, Message>,
    servers: Vec<Server>,
    ears: BTreeMap<(u8, u8), Arc<Bells>>,
    /// How many messages went each way.
    sent: BTreeMap<(u8, u8, bool), u64>,
    /// How many requests each client has sent in each second.
    rate: BTreeMap<(u8, Millis), u64>,
    troubles: Troubles,
    /// When a server has forgotten everything, if one has.
    forgot: Option<Millis>,
    requests: u64,
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bus")
    }
}

impl Bus {
    /// A network in front of these servers.
    #[must_use]
    pub fn new(setting: Setting, servers: Vec<Server>, story: Arc<Story>) -> Arc<Self> {
        let state = State {
            setting,
            base: Instant::now(),
            due: BTreeMap::new(),
            servers,
            ears: BTreeMap::new(),
            sent: BTreeMap::new(),
            rate: BTreeMap::new(),
            troubles: Troubles::default(),
            forgot: None,
            requests: 0,
        };
        Arc::new(Self { state: Mutex::new(state), posted: Notify::new(), story })
    }

    pub(super) fn listen(&self, client: u8, server: u8, ears: Arc<Bells>) {
        self.state().ears.insert((client, server), ears);
    }

    pub(super) fn closed(&self, client: u8, server: u8) {
        self.state().ears.remove(&(client, server));
    }

    /// The clients that still have a connection.
    #[must_use]
    pub fn connected(&self) -> Vec<u8> {
        self.state().ears.keys().map(|(client, _)| *client).collect()
    }

    /// Sends a request; its reply goes to `tell`.
    pub fn send<T: Send + 'static>(
        &self,
        client: u8,
        server: u8,
        call: Call<T>,
        tell: oneshot::Sender<T>,
    ) {
        let mut state = self.state();
        state.count(client);
        let Call { what, ask, show, again } = call;
        let at = state.arrival(client, server, true);
        if state.bites(FaultKind::Mute, client).is_some() {
            self.story.tell(|| format!("client {client} {what}: the request is lost"));
            return;
        }
        let cargo = serve(client, Arc::clone(&ask), show, Some(tell));
        state.post(at, Message { client, server, what: what.clone(), cargo });
        // Behind it: the answer that counts is that of the first.
        if again && let Some(by) = state.bites(FaultKind::Echo, client) {
            let copy = serve(client, ask, show, None);
            state.post(at + by, Message { client, server, what, cargo: copy });
        }
        self.posted.notify_one();
    }

    /// Delivers until the run is over; `look` is called whenever all is at rest.
    pub async fn run(self: Arc<Self>, mut look: impl FnMut()) {
        let mut restless = false;
        loop {
            let (next, now) = (self.next(), self.now());
            let pause = if restless { 1 } else { LOOK };
            let until = next.unwrap_or(now + pause).min(now + pause).max(now);
            let at = self.base() + Duration::from_millis(until);
            tokio::select! {
                biased;
                () = sleep_until(at) => {}
                () = self.posted.notified() => continue,
            }
            look();
            restless = self.deliver();
        }
    }

    fn deliver(&self) -> bool {
        let mut state = self.state();
        let now = state.now();
        let Some(entry) = state.due.first_entry().filter(|entry| *entry.key() <= now) else {
            return false;
        };
        let message = entry.remove();
        match message.cargo {
            Cargo::Request(serve) => {
                let Message { client, server, what, .. } = message;
                self.serve(&mut state, client, server, what, serve);
            }
            Cargo::Reply(tell) => {
                let Message { client, what, .. } = message;
                self.story.mumble(|| format!("client {client} hears: {what}"));
                tell();
            }
            Cargo::Push(push) => {
                let Message { client, server, what, .. } = message;
                self.story.tell(|| format!("client {client} is told: {what}"));
                if let Some(ears) = state.ears.get(&(client, server)) {
                    ears.ring(push);
                }
            }
        }
        true
    }

    fn serve(&self, state: &mut State, client: u8, server: u8, what: String, serve: Serve) {
        let now = state.now();
        if let Some(until) = state.troubles.until(FaultKind::Stall, server, now) {
            state.troubles.bit(FaultKind::Stall);
            let cargo = Cargo::Request(serve);
            return state.post(until, Message { client, server, what, cargo });
        }
        let refusal = state.bites(FaultKind::Refuse, server);
        let place = usize::from(server);
        state.servers[place].refuse(refusal);
        let (answer, tell) = serve(&mut state.servers[place]);
        let curbed = std::mem::take(&mut state.servers[place].curbed);
        if curbed {
            state.troubles.bit(FaultKind::Curb);
        }
        let at = state.arrival(client, server, false);
        let said = format!("client {client} {what}: server {server} says {answer}");
        if state.bites(FaultKind::Deaf, client).is_some() {
            self.story.tell(|| format!("{said}; the reply is lost"));
        } else {
            self.story.tell(|| said.clone());
            let message = Message { client, server, what: answer, cargo: Cargo::Reply(tell) };
            state.post(at, message);
        }
        let pushes = state.servers[place].pushes();
        for (to, push) in pushes {
            let ears = state.ears.keys().filter(|(_, from)| *from == server);
            let ears: Vec<u8> = ears.map(|(client, _)| *client).collect();
            let hears = |client: &u8| to.is_none_or(|to| to == *client);
            for client in ears.into_iter().filter(hears) {
                self.push(state, client, server, push.clone());
            }
        }
    }

    fn push(&self, state: &mut State, client: u8, server: u8, push: Push) {
        let at = state.arrival(client, server, false);
        let late = state.bites(FaultKind::LatePush, client).unwrap_or(0);
        let what = shown(&push);
        if state.bites(FaultKind::Unrung, client).is_some() {
            self.story.tell(|| format!("client {client} is not told: {what}"));
            return;
        }
        state.post(at + late, Message { client, server, what, cargo: Cargo::Push(push) });
    }

    /// Something goes wrong with a server, or with the messages of a client.
    pub fn fault(&self, fault: Fault) {
        let mut state = self.state();
        let now = state.now();
        let place = usize::from(fault.whom);
        match fault.kind {
            FaultKind::Restart => self.restart(&mut state, fault.whom),
            FaultKind::Amnesia => {
                let longest = Duration::from_millis(state.setting.ttl_max);
                self.restart(&mut state, fault.whom);
                state.servers[place].forget(longest);
                state.forgot = Some(now);
                state.troubles.bit(FaultKind::Amnesia);
            }
            FaultKind::Curb => {
                state.servers[place].curb = Some(Duration::from_millis(fault.by.max(10)));
            }
            _ => state.troubles.begin(fault, now),
        }
    }

    /// It has bitten, outside of the bus.
    pub fn bit(&self, kind: FaultKind) {
        self.state().troubles.bit(kind);
    }

    /// What is under way is gone, and clients notice that the connection is.
    fn restart(&self, state: &mut State, server: u8) {
        let before = state.due.len();
        state.due.retain(|_, message| message.server != server);
        if state.due.len() < before {
            state.troubles.bit(FaultKind::Restart);
        }
        let ears = state.ears.iter().filter(|((_, from), _)| *from == server);
        let ears: Vec<_> = ears.map(|((client, _), ears)| (*client, Arc::clone(ears))).collect();
        for (client, ears) in ears {
            ears.ring(Push::Event(Event::Suspended));
            self.push(state, client, server, Push::Event(Event::Reconnected));
        }
        self.posted.notify_one();
    }

    /// Looks at the servers.
    pub fn servers<T>(&self, look: impl FnOnce(&[Server]) -> T) -> T {
        look(&self.state().servers)
    }

    /// How often each kind of fault has bitten.
    #[must_use]
    pub fn bites(&self) -> Bites {
        self.state().troubles.bites_so_far().clone()
    }

    /// The most requests of one client in one second.
    #[must_use]
    pub fn busiest(&self) -> u64 {
        self.state().rate.values().copied().max().unwrap_or(0)
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// When a server forgot everything, if one has.
    #[must_use]
    pub fn forgot(&self) -> Option<Millis> {
        self.state().forgot
    }

    /// Milliseconds since the run began.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.state().now()
    }

    /// When the run began.
    #[must_use]
    pub fn base(&self) -> Instant {
        self.state().base
    }

    fn next(&self) -> Option<Millis> {
        self.state().due.first_key_value().map(|(at, _)| *at)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn now(&self) -> Millis {
        u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn count(&mut self, client: u8) {
        self.requests += 1;
        let second = self.now() / 1000;
        *self.rate.entry((client, second)).or_default() += 1;
    }

    fn bites(&mut self, kind: FaultKind, whom: u8) -> Option<u64> {
        let now = self.now();
        self.troubles.bites(kind, whom, now)
    }

    /// When the next message of a client arrives, or the next one to it.
    fn arrival(&mut self, client: u8, server: u8, there: bool) -> Millis {
        let number = self.sent.entry((client, server, there)).or_default();
        *number += 1;
        let key = u64::from(client) << 40 | u64::from(server) << 48 | u64::from(there) << 56;
        let mut dice = fastrand::Rng::with_seed(self.setting.seed ^ key ^ *number << 8);
        dice.u64(..);
        let Setting { quickest, slowest, .. } = self.setting;
        let slow = self.bites(FaultKind::Slow, client).map_or(0, |by| dice.u64(..=by));
        self.now() + dice.u64(quickest..=slowest.max(quickest)) + slow
    }

    /// The first free millisecond from then on is its.
    fn post(&mut self, mut at: Millis, message: Message) {
        at = at.max(self.now() + 1);
        while self.due.contains_key(&at) {
            at += 1;
        }
        self.due.insert(at, message);
    }
}

fn serve<T: Send + 'static>(
    client: u8,
    ask: Ask<T>,
    show: fn(&T) -> String,
    tell: Option<oneshot::Sender<T>>,
) -> Cargo {
    Cargo::Request(Box::new(move |server| {
        let answer = ask(server, client);
        let shown = show(&answer);
        let tell: Tell = Box::new(move || drop(tell.map(|tell| tell.send(answer))));
        (shown, tell)
    }))
}

fn shown(push: &Push) -> String {
    match push {
        Push::Granted(id, fence, _) => format!("granted {fence}{}", tag(*id)),
        Push::Event(Event::TicketLost(id, loss)) => format!("lost{}: {loss:?}", tag(*id)),
        Push::Event(Event::RevocationAsked(id)) => format!("wanted back{}", tag(*id)),
        Push::Event(event) => format!("{event:?}").to_lowercase(),
    }
}

/// A short name for a ticket.
fn tag(id: LeaseId) -> String {
    format!(" (ticket {:04x})", id.to_bits() & 0xffff)
}
