//! A connection that is made again whenever it breaks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::dial::Dialer;
use super::wire::{Kind, Wire};
use super::{fault, within};
use crate::clock::Moment;
use crate::engines::health::Report;
use crate::error::{Error, Result};
use crate::home::Handle;

/// How often a connection that rests is looked at.
pub(super) const PULSE: Duration = Duration::from_secs(5);
/// How often all servers are asked whether they take writes.
const SURVEY: Duration = Duration::from_secs(30);
/// The first pause before connecting again, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Ever longer pauses.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Self {
        Self(PAUSE)
    }

    /// After a connection that stood for `stood`. One that breaks at once is no
    /// reason for haste; one that stood for longer than it was waited for is.
    pub(super) async fn rest(&mut self, dialer: &Dialer, stood: Duration) {
        if stood > self.0 {
            self.0 = PAUSE;
        }
        let jittered = self.0.mul_f64(0.5 + fastrand::f64() / 2.0);
        dialer.clock.sleep_until(dialer.clock.now().after(jittered)).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}

/// Until the connection has ended, or the server is not what it was.
pub(super) async fn look_after(dialer: &Dialer, wire: &Wire) {
    let mut replaced = pin!(dialer.replaced(wire.address()));
    loop {
        let rest = dialer.clock.sleep_until(dialer.clock.now().after(PULSE));
        tokio::select! {
            () = wire.gone() => return,
            () = &mut replaced => return,
            () = rest => {}
        }
        if within(&dialer.clock, dialer.settings.timeout, wire.is_well()).await != Some(true) {
            return;
        }
    }
}

/// A connection for ever; ends with its value.
pub(super) struct Lane {
    state: Arc<watch::Sender<State>>,
    dialer: Arc<Dialer>,
    task: AbortHandle,
    users: AtomicUsize,
}

enum State {
    Up(Arc<Wire>),
    /// With the reason why the last attempt failed, once there was one.
    Down(Option<Error>),
    Closed,
}

impl Lane {
    /// Connects, and keeps at it. Only the first lane of a link reports.
    pub(super) fn start(dialer: &Arc<Dialer>, report: Option<Report>) -> Arc<Self> {
        let state = Arc::new(watch::Sender::new(State::Down(None)));
        let keeper = Keeper { state: Arc::clone(&state), dialer: Arc::clone(dialer), report };
        let task = Handle::current().spawn(keeper.keep()).abort_handle();
        Arc::new(Self { state, dialer: Arc::clone(dialer), task, users: AtomicUsize::new(0) })
    }

    /// The connection, if it stands now.
    pub(super) fn standing(&self) -> Option<Arc<Wire>> {
        match &*self.state.borrow() {
            State::Up(wire) if !wire.is_gone() => Some(Arc::clone(wire)),
            _ => None,
        }
    }

    /// The connection, once it stands; an error when the attempt under way
    /// fails, or the time has come.
    pub(super) async fn wire(&self, until: Moment) -> Result<Arc<Wire>> {
        if let Some(wire) = self.standing() {
            return Ok(wire);
        }
        let clock = &self.dialer.clock;
        let attempt = within(clock, until.since(clock.now()), attempt(self.state.subscribe()));
        attempt.await.unwrap_or_else(|| Err(fault::away("the connection is not back yet")))
    }

    /// How many use it now or want to.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// For good.
    pub(super) fn close(&self) {
        self.task.abort();
        if let State::Up(wire) = self.state.send_replace(State::Closed) {
            wire.close();
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
    }
}

/// One user of a lane.
pub(super) struct Seat(Arc<Lane>);

impl Seat {
    pub(super) fn new(lane: &Arc<Lane>) -> Self {
        lane.users.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(lane))
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The outcome of the attempt under way. That of the one before does not count.
async fn attempt(mut state: watch::Receiver<State>) -> Result<Arc<Wire>> {
    let mut fresh = false;
    loop {
        match &*state.borrow_and_update() {
            State::Up(wire) if !wire.is_gone() => return Ok(Arc::clone(wire)),
            State::Down(Some(why)) if fresh => return Err(why.clone()),
            State::Closed => return Err(fault::away("this client is closed")),
            _ => {}
        }
        state.changed().await.map_err(|_| fault::away("this client is closed"))?;
        fresh = true;
    }
}

/// The task behind a lane.
struct Keeper {
    state: Arc<watch::Sender<State>>,
    dialer: Arc<Dialer>,
    report: Option<Report>,
}

impl Keeper {
    async fn keep(self) {
        let mut pauses = Pauses::new();
        loop {
            let stood = match self.dialer.dial(Kind::Shared, None).await {
                Ok(wire) => self.stand(wire).await,
                Err(error) => self.fail(error),
            };
            pauses.rest(&self.dialer, stood).await;
        }
    }

    /// From the moment the connection stands until it does not; how long.
    async fn stand(&self, wire: Arc<Wire>) -> Duration {
        let born = self.dialer.clock.now();
        self.state.send_replace(State::Up(Arc::clone(&wire)));
        self.tell(true);
        tokio::select! {
            () = look_after(&self.dialer, &wire) => {}
            () = self.survey() => {}
        }
        self.dialer.note_break();
        self.state.send_replace(State::Down(None));
        wire.close();
        self.tell(false);
        self.dialer.clock.now().since(born)
    }

    /// One that was replaced may not know it. Never ends; one lane is enough.
    async fn survey(&self) {
        let clock = &self.dialer.clock;
        while self.report.is_some() {
            clock.sleep_until(clock.now().after(SURVEY)).await;
            self.dialer.survey().await;
        }
        std::future::pending().await
    }

    fn fail(&self, error: Error) -> Duration {
        self.state.send_replace(State::Down(Some(error)));
        self.tell(false);
        Duration::ZERO
    }

    fn tell(&self, up: bool) {
        if let Some(report) = &self.report {
            report.set(up);
        }
    }
}
