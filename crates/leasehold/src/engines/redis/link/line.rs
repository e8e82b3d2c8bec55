//! A connection that is made again whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::fault;
use super::wire::{ConnectionTerms, Wire};
use crate::clock::Clock;
use crate::engine::BoxFuture;
use crate::engines::kit::supervise::{self, Supervisor};
use crate::error::{Error, Result};

/// How often a quiet connection is probed: a peer that has died without a word
/// is noticed within this and a command time-out.
const PROBE: Duration = Duration::from_secs(5);

/// Makes a connection.
pub(super) type DialWire = Box<dyn Fn() -> BoxFuture<Result<Wire>> + Send + Sync>;
/// Hears whether the connection stands.
pub(super) type Tell = Box<dyn Fn(bool) + Send + Sync>;

/// A connection for ever. Cheap to clone; ends with its last clone.
#[derive(Clone)]
pub(super) struct ServerLine {
    terms: Arc<ConnectionTerms>,
    supervisor: Arc<Supervisor<WireDialer>>,
}

impl ServerLine {
    /// Connects, and keeps at it.
    pub(super) fn start(
        terms: Arc<ConnectionTerms>,
        probe: fn() -> Probe,
        dial: DialWire,
        tell: Tell,
    ) -> Self {
        let dialer = WireDialer { clock: terms.clock.clone(), dial, probe, tell };
        Self { terms, supervisor: Arc::new(Supervisor::start(Arc::new(dialer))) }
    }

    /// The connection, if it stands now.
    pub(super) fn standing(&self) -> Option<Wire> {
        self.supervisor.standing()
    }

    /// The connection, once it stands; an error when the attempt under way
    /// fails, or `limit` passes.
    pub(super) async fn wire(&self, limit: Duration) -> Result<Wire> {
        self.supervisor.get(limit).await
    }

    /// Sends all in one go; see [`Wire::send`].
    pub(super) async fn send(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>> {
        self.wire(self.terms.timeout).await?.send(pipeline).await
    }

    /// Whether both are the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.supervisor, &other.supervisor)
    }

    /// The server says that it is no primary any more.
    pub(super) fn condemn(&self) {
        self.standing().iter().for_each(Wire::condemn);
    }

    /// Someone has reason to look whether the server is still what it was.
    pub(super) fn doubt(&self) {
        self.standing().iter().for_each(Wire::doubt);
    }

    /// For good.
    pub(super) fn close(&self) {
        self.supervisor.close();
    }
}

/// Whether a server that answers is the one we want.
pub(super) struct Probe {
    pub(super) command: redis::Cmd,
    pub(super) is_fine: fn(&Value) -> bool,
}

impl Probe {
    /// Any answer will do.
    pub(super) fn alive() -> Self {
        Self { command: redis::cmd("PING"), is_fine: |_| true }
    }
}

/// How the connection of a line is made and looked after.
struct WireDialer {
    clock: Clock,
    dial: DialWire,
    probe: fn() -> Probe,
    tell: Tell,
}

impl supervise::SupervisedConnection for Wire {
    fn is_gone(&self) -> bool {
        Self::is_gone(self)
    }

    fn close(&self) {
        Self::close(self);
    }
}

impl supervise::Supervise for WireDialer {
    type Connection = Wire;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn dial(&self) -> impl Future<Output = Result<Wire>> + Send {
        (self.dial)()
    }

    async fn look_after(&self, wire: &Wire) {
        loop {
            tokio::select! {
                biased;
                () = wire.gone() => return,
                () = wire.condemned() => return,
                () = wire.doubted() => {}
                () = self.clock.sleep_until(self.clock.now().after(PROBE)) => {}
            }
            if !self.is_well(wire).await {
                return;
            }
        }
    }

    fn tell(&self, up: bool) {
        (self.tell)(up);
    }

    fn away(&self, why: &'static str) -> Error {
        fault::away(why)
    }
}

impl WireDialer {
    async fn is_well(&self, wire: &Wire) -> bool {
        let Probe { command, is_fine } = (self.probe)();
        let mut pipeline = redis::Pipeline::with_capacity(1);
        pipeline.add_command(command);
        match wire.send(&pipeline).await {
            Ok(answers) => answers.first().is_none_or(is_fine),
            Err(_) => false,
        }
    }
}
