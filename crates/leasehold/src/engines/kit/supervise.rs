//! A connection that is made again whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::backoff::Backoff;
use super::timeout::timeout;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::home::Handle;

/// The first pause before connecting again, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// A connection that stands, or stood. Cheap to clone.
pub(in crate::engines) trait SupervisedConnection:
    Clone + Send + Sync + 'static
{
    fn is_gone(&self) -> bool;

    fn close(&self);
}

/// How connections of one kind are made and looked after.
pub(in crate::engines) trait Supervise: Send + Sync + 'static {
    type Connection: SupervisedConnection;

    fn clock(&self) -> &Clock;

    /// Makes one; ends by itself.
    fn dial(&self) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Probes one until it is of no use any more. What is still under way on it
    /// may come to its end, unless this closes it.
    fn look_after(&self, connection: &Self::Connection) -> impl Future<Output = ()> + Send;

    /// It stands now, or does not.
    fn tell(&self, up: bool);

    /// What to say to those who want one and cannot have it.
    fn away(&self, why: &'static str) -> Error;
}

enum SupervisedState<C> {
    Up(C),
    /// With the reason why the last attempt failed, once there was one.
    Down(Option<Error>),
    Closed,
}

/// A connection for ever. Without it nothing is made again; what is under way on
/// the last connection may come to its end, unless it was closed.
pub(in crate::engines) struct Supervisor<D: Supervise> {
    state: Arc<watch::Sender<SupervisedState<D::Connection>>>,
    dialer: Arc<D>,
    task: AbortHandle,
}

impl<D: Supervise> Supervisor<D> {
    /// Connects, and keeps at it.
    pub(in crate::engines) fn start(dialer: Arc<D>) -> Self {
        let state = Arc::new(watch::Sender::new(SupervisedState::Down(None)));
        let task = keep(Arc::clone(&dialer), Arc::clone(&state));
        let task = Handle::current().spawn(task).abort_handle();
        Self { state, dialer, task }
    }

    /// The connection, if it stands now.
    pub(in crate::engines) fn standing(&self) -> Option<D::Connection> {
        match &*self.state.borrow() {
            SupervisedState::Up(connection) if !connection.is_gone() => Some(connection.clone()),
            _ => None,
        }
    }

    /// The connection, once it stands; an error when the attempt under way
    /// fails, or `limit` passes.
    pub(in crate::engines) async fn get(&self, limit: Duration) -> Result<D::Connection> {
        if let Some(connection) = self.standing() {
            return Ok(connection);
        }
        let attempt = timeout(self.dialer.clock(), limit, self.attempt()).await;
        attempt.unwrap_or_else(|| Err(self.dialer.away("the connection is not back yet")))
    }

    /// The outcome of the attempt under way. That of the one before does not
    /// count.
    async fn attempt(&self) -> Result<D::Connection> {
        let mut state = self.state.subscribe();
        let mut fresh = false;
        loop {
            match &*state.borrow_and_update() {
                SupervisedState::Up(connection) if !connection.is_gone() => {
                    return Ok(connection.clone());
                }
                SupervisedState::Down(Some(why)) if fresh => return Err(why.clone()),
                SupervisedState::Closed => return Err(self.dialer.away("this client is closed")),
                _ => {}
            }
            let changed = state.changed().await;
            changed.map_err(|_| self.dialer.away("this client is closed"))?;
            fresh = true;
        }
    }

    /// For good.
    pub(in crate::engines) fn close(&self) {
        self.task.abort();
        if let SupervisedState::Up(connection) = self.state.send_replace(SupervisedState::Closed) {
            connection.close();
        }
    }
}

impl<D: Supervise> Drop for Supervisor<D> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pauses between two connections.
pub(in crate::engines) const fn backoff() -> Backoff {
    Backoff::new(PAUSE, LONGEST)
}

/// The task behind it: dial, up, probe, down, pause.
async fn keep<D: Supervise>(
    dialer: Arc<D>,
    state: Arc<watch::Sender<SupervisedState<D::Connection>>>,
) {
    let mut backoff = backoff();
    loop {
        let stood = match dialer.dial().await {
            Ok(connection) => stand(&*dialer, &state, connection).await,
            Err(error) => {
                state.send_replace(SupervisedState::Down(Some(error)));
                dialer.tell(false);
                Duration::ZERO
            }
        };
        backoff.sleep_after(stood, dialer.clock()).await;
    }
}

/// From the moment the connection stands until it does not; how long.
async fn stand<D: Supervise>(
    dialer: &D,
    state: &watch::Sender<SupervisedState<D::Connection>>,
    connection: D::Connection,
) -> Duration {
    let born = dialer.clock().now();
    state.send_replace(SupervisedState::Up(connection.clone()));
    dialer.tell(true);
    dialer.look_after(&connection).await;
    state.send_replace(SupervisedState::Down(None));
    dialer.tell(false);
    dialer.clock().now().since(born)
}
