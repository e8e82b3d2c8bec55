//! A connection that is made again whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::fault;
use super::wire::{Terms, Wire, within};
use crate::clock::Clock;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};
use crate::home::Handle;

/// How often a quiet connection is looked after: a peer that has died without
/// a word is noticed within this and a command time-out.
const PULSE: Duration = Duration::from_secs(5);
/// The first pause before connecting again, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Makes a connection.
pub(super) type Dial = Box<dyn Fn() -> BoxFuture<Result<Wire>> + Send + Sync>;
/// Hears whether the connection stands.
pub(super) type Tell = Box<dyn Fn(bool) + Send + Sync>;

/// A connection for ever. Cheap to clone; ends with its last clone.
#[derive(Clone)]
pub(super) struct Line {
    state: Arc<watch::Sender<State>>,
    terms: Arc<Terms>,
    task: Arc<Task>,
}

enum State {
    Up(Wire),
    /// With the reason why the last attempt failed, once there was one.
    Down(Option<Error>),
    Closed,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Line {
    /// Connects, and keeps at it.
    pub(super) fn start(terms: Arc<Terms>, pulse: fn() -> Pulse, dial: Dial, tell: Tell) -> Self {
        let state = Arc::new(watch::Sender::new(State::Down(None)));
        let keeper = Keeper { state: Arc::clone(&state), clock: terms.clock.clone(), pulse, tell };
        let task = Handle::current().spawn(keeper.keep(dial)).abort_handle();
        Self { state, terms, task: Arc::new(Task(task)) }
    }

    /// The connection, if it stands now.
    pub(super) fn standing(&self) -> Option<Wire> {
        match &*self.state.borrow() {
            State::Up(wire) if !wire.is_gone() => Some(wire.clone()),
            _ => None,
        }
    }

    /// The connection, once it stands; an error when the attempt under way
    /// fails, or `limit` passes.
    pub(super) async fn wire(&self, limit: Duration) -> Result<Wire> {
        if let Some(wire) = self.standing() {
            return Ok(wire);
        }
        let attempt = within(&self.terms.clock, limit, attempt(self.state.subscribe())).await;
        attempt.unwrap_or_else(|| Err(fault::away("the connection is not back yet")))
    }

    /// Sends all in one go; see [`Wire::send`].
    pub(super) async fn send(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>> {
        self.wire(self.terms.timeout).await?.send(pipeline).await
    }

    /// Whether both are the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// The server says that it is no primary any more.
    pub(super) fn condemn(&self) {
        if let State::Up(wire) = &*self.state.borrow() {
            wire.condemn();
        }
    }

    /// Someone has reason to look whether the server is still what it was.
    pub(super) fn doubt(&self) {
        if let State::Up(wire) = &*self.state.borrow() {
            wire.doubt();
        }
    }

    /// For good.
    pub(super) fn close(&self) {
        self.task.0.abort();
        if let State::Up(wire) = self.state.send_replace(State::Closed) {
            wire.close();
        }
    }
}

/// The outcome of the attempt under way. That of the one before does not count.
async fn attempt(mut state: watch::Receiver<State>) -> Result<Wire> {
    let mut fresh = false;
    loop {
        match &*state.borrow_and_update() {
            State::Up(wire) if !wire.is_gone() => return Ok(wire.clone()),
            State::Down(Some(why)) if fresh => return Err(why.clone()),
            State::Closed => return Err(fault::away("this client is closed")),
            _ => {}
        }
        state.changed().await.map_err(|_| fault::away("this client is closed"))?;
        fresh = true;
    }
}

/// Whether a server that answers is the one we want.
pub(super) struct Pulse {
    pub(super) command: redis::Cmd,
    pub(super) is_fine: fn(&Value) -> bool,
}

impl Pulse {
    /// Any answer will do.
    pub(super) fn alive() -> Self {
        Self { command: redis::cmd("PING"), is_fine: |_| true }
    }
}

/// The task behind a line.
struct Keeper {
    state: Arc<watch::Sender<State>>,
    clock: Clock,
    pulse: fn() -> Pulse,
    tell: Tell,
}

impl Keeper {
    async fn keep(self, dial: Dial) {
        let mut pause = PAUSE;
        loop {
            let stood = match dial().await {
                Ok(wire) => self.stand(wire).await,
                Err(error) => self.fail(error),
            };
            // One that breaks at once is no reason for haste; one that stood for
            // longer than it was waited for is.
            if stood > pause {
                pause = PAUSE;
            }
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.clock.sleep_until(self.clock.now().after(jittered)).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// From the moment the connection stands until it does not; how long.
    async fn stand(&self, wire: Wire) -> Duration {
        let born = self.clock.now();
        self.state.send_replace(State::Up(wire.clone()));
        (self.tell)(true);
        self.look_after(&wire).await;
        self.state.send_replace(State::Down(None));
        (self.tell)(false);
        self.clock.now().since(born)
    }

    fn fail(&self, error: Error) -> Duration {
        self.state.send_replace(State::Down(Some(error)));
        (self.tell)(false);
        Duration::ZERO
    }

    async fn look_after(&self, wire: &Wire) {
        loop {
            tokio::select! {
                biased;
                () = wire.gone() => return,
                () = wire.condemned() => return,
                () = wire.doubted() => {}
                () = self.clock.sleep_until(self.clock.now().after(PULSE)) => {}
            }
            if !self.is_well(wire).await {
                return;
            }
        }
    }

    async fn is_well(&self, wire: &Wire) -> bool {
        let Pulse { command, is_fine } = (self.pulse)();
        let mut pipeline = redis::Pipeline::with_capacity(1);
        pipeline.add_command(command);
        match wire.send(&pipeline).await {
            Ok(answers) => answers.first().is_none_or(is_fine),
            Err(_) => false,
        }
    }
}
