//! One session and the connection it is on, made again when it breaks: on any
//! server, until one says that the session is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::AbortHandle;

use super::connection::ZkConnection;
use super::dial::{Boxed, dial, frame};
use super::fault;
use super::leader_clock::LeaderClock;
use super::liveness::LivenessProof;
use super::settings::ZkSettings;
use super::state::StatePublisher;
use super::wire::{Greeting, Hello, ZkRequest};
use crate::claim::RENEW_FRACTION;
use crate::clock::{Clock, Moment};
use crate::engines::consensus::Session;
use crate::engines::kit::backoff::Backoff;
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::request_slots::RequestSlots;
use crate::engines::kit::timeout::timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// The first pause before all servers are tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// How often the shortest session is asked for again.
const PROBES: usize = 2;

/// How far apart signs of life are at most. What is certain of a session is less
/// by this much.
const GAP: Duration = Duration::from_secs(2);

/// How many list a line at a time. A line of ten thousand is 600 KB, and more than
/// that while the server writes it down.
const LISTS: usize = 32;

/// What all connections of a client have in common.
pub(super) struct SessionTerms {
    pub(super) settings: ZkSettings,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) clock: Clock,
    pub(super) home: Handle,
    /// The newest change that this client knows of.
    pub(super) newest: Arc<AtomicI64>,
    pub(super) state_publisher: StatePublisher,
    pub(super) wall: LeaderClock,
}

impl SessionTerms {
    /// Says hello to the servers in random order, until one answers.
    pub(super) async fn greet(&self, hello: Hello) -> Result<Met> {
        let mut servers: Vec<&ServerAddress> = self.settings.servers.iter().collect();
        fastrand::shuffle(&mut servers);
        let share = self.settings.connect / u32::try_from(servers.len()).unwrap_or(u32::MAX);
        let mut last = fault::away("no server was asked");
        for server in servers {
            match timeout(&self.clock, share, self.meet(server, hello)).await {
                Some(Ok(met)) => return Ok(met),
                Some(Err(error)) => last = error,
                None => last = fault::away("cannot connect in time").with("server", server),
            }
        }
        Err(last)
    }

    /// The shortest time-out that the servers give, learned from a session that
    /// nobody uses.
    pub(super) async fn probe(&self) -> Result<Duration> {
        let hello = new_session(Duration::from_millis(1));
        let end = self.clock.now().after(self.settings.connect);
        let mut met = self.greet(hello).await;
        // So short a session can be over before its greeting is read.
        for _ in 0..PROBES {
            if met.is_err() && self.clock.now() < end {
                met = self.greet(hello).await;
            }
        }
        let met = met?;
        let shortest = met.timeout();
        // Otherwise it ends by itself, soon.
        let _ = timeout(&self.clock, self.settings.timeout, leave(met.stream)).await;
        Ok(shortest)
    }

    async fn meet(&self, server: &ServerAddress, hello: Hello) -> Result<Met> {
        let seen = self.newest.load(Ordering::Relaxed);
        let sent_at = self.clock.now();
        let login = self.settings.digest.as_deref();
        let (stream, greeting) =
            dial(server, self.tls.as_ref(), Hello { seen, ..hello }, login).await?;
        Ok(Met { stream, greeting, sent_at })
    }
}

/// Ends a session that has just begun.
async fn leave(mut stream: Boxed) -> std::io::Result<()> {
    stream.write_all(&ZkRequest::Close.frame(1)).await?;
    stream.flush().await?;
    frame(&mut stream).await.map(drop)
}

/// A server that has greeted us.
pub(super) struct Met {
    pub(super) stream: Boxed,
    pub(super) greeting: Greeting,
    /// When we said hello.
    sent_at: Moment,
}

impl Met {
    /// How long the session outlives its last sign of life.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.greeting.timeout).unwrap_or_default())
    }

    const fn is_over(&self) -> bool {
        self.greeting.timeout <= 0
    }
}

/// Asks for a session that nobody has yet.
pub(super) fn new_session(timeout: Duration) -> Hello {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    Hello { seen: 0, timeout, session: 0, password: [0; 16] }
}

/// What a greeting makes of a session: how long a server keeps it, and how often
/// we have to be heard.
#[derive(Clone, Copy, Debug)]
struct SessionPace {
    /// The time-out without the lock delay: within it all must have gone well.
    span: Duration,
    /// How far the leader may be behind.
    lag: Duration,
    /// How far apart our signs of life are at most.
    gap: Duration,
}

impl SessionPace {
    fn new(timeout: Duration, delay: Duration, lag: Duration) -> Self {
        let span = timeout.saturating_sub(delay);
        Self { span, lag, gap: (span / 8).min(GAP) }
    }

    /// How long the session is certain after a sign of life.
    fn ttl(self) -> Duration {
        self.span.saturating_sub(LivenessProof::cost(self.lag, self.gap))
    }
}

/// A session with its connection. Ends with its value.
#[derive(Debug)]
pub(super) struct SessionLink {
    session: Arc<Session>,
    /// The time-out that was asked for, without the lock delay.
    pub(super) asked: Duration,
    /// The one that the server gave whose greeting was the last, in milliseconds.
    timeout: Arc<AtomicU64>,
    place: Arc<watch::Sender<Attachment>>,
    /// For those who list a line.
    slots: RequestSlots,
    clock: Clock,
    patience: Duration,
    task: AbortHandle,
}

#[derive(Debug)]
enum Attachment {
    On(ZkConnection),
    /// With the reason why the last attempt failed, once there was one.
    Off(Option<Error>),
    Over,
}

impl Drop for SessionLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SessionLink {
    /// A session of this time-out and lock delay, on whichever server answers
    /// first. The leader hears of us at least every `lag`.
    pub(super) async fn open(
        terms: &Arc<SessionTerms>,
        asked: Duration,
        delay: Duration,
        lag: Duration,
    ) -> Result<Self> {
        let met = terms.greet(new_session(asked.saturating_add(delay))).await?;
        let (pace, greeting) = (SessionPace::new(met.timeout(), delay, lag), met.greeting);
        let id = u64::from_be_bytes(greeting.session.to_be_bytes());
        let session = Arc::new(Session::new(id, pace.ttl(), delay, met.sent_at));
        let keeper = SessionTask {
            terms: Arc::clone(terms),
            session: Arc::clone(&session),
            greeting,
            timeout: Arc::default(),
            lag,
            place: Arc::new(watch::Sender::new(Attachment::Off(None))),
        };
        let (place, timeout) = (Arc::clone(&keeper.place), Arc::clone(&keeper.timeout));
        let first = keeper.settle(met);
        let task = terms.home.spawn(keeper.keep(first)).abort_handle();
        let (clock, patience) = (terms.clock.clone(), terms.settings.timeout);
        let slots = RequestSlots::new(LISTS);
        Ok(Self { session, asked, timeout, place, slots, clock, patience, task })
    }

    pub(super) const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// How long the server keeps the session after its last sign of life.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Relaxed))
    }

    /// The id of the session, as servers write it.
    pub(super) fn id(&self) -> i64 {
        i64::from_be_bytes(self.session.id().to_be_bytes())
    }

    /// Whether the session is known to live and has a connection.
    pub(super) fn is_up(&self) -> bool {
        matches!(&*self.place.borrow(), Attachment::On(connection) if !connection.is_gone())
    }

    /// The connection, once there is one, within the request time-out.
    pub(super) async fn connection(&self) -> Result<ZkConnection> {
        let found = timeout(&self.clock, self.patience, self.next()).await;
        found.unwrap_or_else(|| {
            let error = fault::away("the connection is not back yet");
            Err(match &*self.place.borrow() {
                Attachment::Off(Some(why)) => error.caused_by(why),
                _ => error,
            })
        })
    }

    async fn next(&self) -> Result<ZkConnection> {
        let mut place = self.place.subscribe();
        loop {
            match &*place.borrow_and_update() {
                Attachment::On(connection) if !connection.is_gone() => {
                    return Ok(connection.clone());
                }
                Attachment::Off(Some(why)) if why.kind() == ErrorKind::Denied => {
                    return Err(why.clone());
                }
                Attachment::Over => return Err(fault::over()),
                _ => {}
            }
            place.changed().await.map_err(|_| fault::over())?;
        }
    }

    /// A slot to list a line, until all of it is read: thousands of lists at once are
    /// more than a server has room for, and none of them would be answered in time.
    pub(super) async fn slot_to_list(&self) -> Result<OwnedSemaphorePermit> {
        let by = self.clock.now().after(self.patience);
        let slot = self.slots.take(&self.clock, by, self.patience).await;
        slot.map(|(slot, _)| slot).ok_or_else(fault::silent)
    }

    /// Gives the slot to the next; who stands in line is told that the server answers.
    pub(super) fn listed(&self, slot: OwnedSemaphorePermit) {
        self.slots.answered(&self.clock);
        drop(slot);
    }

    /// Ends the session, with everything that lives on it.
    pub(super) async fn close(&self) {
        self.task.abort();
        let place = self.place.send_replace(Attachment::Over);
        self.session.end();
        if let Attachment::On(connection) = place {
            if self.session.may_end(self.clock.now()) {
                // If nobody answers, the server ends it after its time-out.
                let _ = connection.ask(vec![ZkRequest::Close]).await;
            }
            connection.cut();
        }
    }
}

/// The task behind a session link.
struct SessionTask {
    terms: Arc<SessionTerms>,
    session: Arc<Session>,
    greeting: Greeting,
    timeout: Arc<AtomicU64>,
    lag: Duration,
    place: Arc<watch::Sender<Attachment>>,
}

impl SessionTask {
    async fn keep(self, (mut connection, mut pace): (ZkConnection, SessionPace)) {
        loop {
            self.attend(&connection, pace).await;
            connection.cut();
            self.place.send_replace(Attachment::Off(None));
            self.terms.state_publisher.set(self.session.id(), false);
            match self.attach().await {
                Some(met) => (connection, pace) = self.settle(met),
                None => break,
            }
            // That a server knows us says nothing about the others.
            connection.ask_for_proof();
        }
        self.session.end();
        self.place.send_replace(Attachment::Over);
        self.terms.state_publisher.over(self.session.id());
    }

    /// Takes a server that knows our session. Its limits count from now on: they
    /// may be others than those of the server before, or than they were.
    fn settle(&self, met: Met) -> (ZkConnection, SessionPace) {
        self.terms.wall.forget();
        let pace = SessionPace::new(met.timeout(), self.session.delay(), self.lag);
        self.session.retime(pace.ttl(), met.sent_at);
        let millis = u64::try_from(met.timeout().as_millis()).unwrap_or(u64::MAX);
        self.timeout.store(millis, Ordering::Relaxed);
        let proof = LivenessProof::new(&self.session, pace.lag, pace.gap, met.sent_at);
        let SessionTerms { clock, home, newest, settings, .. } = &*self.terms;
        let connection =
            ZkConnection::start(met.stream, proof, newest, clock, settings.timeout, home);
        self.place.send_replace(Attachment::On(connection.clone()));
        self.terms.state_publisher.set(self.session.id(), true);
        (connection, pace)
    }

    /// Shows signs of life until the connection ends, or the server owes us an
    /// answer for too long.
    async fn attend(&self, connection: &ZkConnection, pace: SessionPace) {
        let clock = &self.terms.clock;
        let mut asked = self.session.proven();
        let start = clock.now();
        loop {
            let now = clock.now();
            if connection.owed_since().is_some_and(|since| now.since(since) > pace.span / 2) {
                return;
            }
            // It answers pings, and brings no word of the others.
            if now.since(self.session.proven().max(start)) > pace.span {
                return;
            }
            // A little early, since timers are late.
            let next = connection.ping(pace.gap * 3 / 4);
            asked = asked.max(self.session.proven());
            if now.since(asked) >= pace.span / RENEW_FRACTION {
                connection.ask_for_proof();
                asked = now;
            }
            tokio::select! {
                () = connection.gone() => return,
                () = clock.sleep_until(next) => {}
            }
        }
    }

    /// Until a server knows our session, or says that it is over.
    async fn attach(&self) -> Option<Met> {
        let Greeting { session, password, timeout } = self.greeting;
        let hello = Hello { seen: 0, timeout, session, password };
        let mut backoff = Backoff::new(PAUSE, LONGEST);
        loop {
            match self.terms.greet(hello).await {
                Ok(met) if met.is_over() => return None,
                Ok(met) => return Some(met),
                Err(why) => self.place.send_replace(Attachment::Off(Some(why))),
            };
            backoff.sleep(&self.terms.clock).await;
        }
    }
}
