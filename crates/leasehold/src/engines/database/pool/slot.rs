//! A connection that is made again whenever it breaks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::dial::PoolDialer;
use crate::clock::Clock;
use crate::engines::database::drivers::fault;
use crate::engines::database::drivers::{ConnectionUse, DatabaseConnection};
use crate::engines::kit::health::Report;
use crate::engines::kit::supervise::{self, Supervisor};
use crate::engines::kit::timeout::timeout;
use crate::error::{Error, Result};

/// How often a connection that rests is looked at.
pub(super) const PROBE: Duration = Duration::from_secs(5);
/// How often all servers are asked whether they take writes.
const SURVEY: Duration = Duration::from_secs(30);
/// Until the connection has ended, or the server is not what it was.
pub(super) async fn look_after(dialer: &PoolDialer, connection: &DatabaseConnection) {
    let mut replaced = pin!(dialer.replaced(connection.address()));
    loop {
        let rest = dialer.clock.sleep_until(dialer.clock.now().after(PROBE));
        tokio::select! {
            () = connection.gone() => return,
            () = &mut replaced => return,
            () = rest => {}
        }
        if timeout(&dialer.clock, dialer.settings.timeout, connection.is_well()).await != Some(true)
        {
            return;
        }
    }
}

/// A connection for ever; ends with its value.
pub(super) struct Slot {
    supervisor: Supervisor<Shared>,
    users: AtomicUsize,
}

impl Slot {
    /// Connects, and keeps at it. Only the first slot of a pool reports.
    pub(super) fn start(dialer: &Arc<PoolDialer>, report: Option<Report>) -> Arc<Self> {
        let shared = Shared { dialer: Arc::clone(dialer), report };
        let supervisor = Supervisor::start(Arc::new(shared));
        Arc::new(Self { supervisor, users: AtomicUsize::new(0) })
    }

    /// The connection, if it stands now.
    pub(super) fn standing(&self) -> Option<Arc<DatabaseConnection>> {
        self.supervisor.standing()
    }

    /// The connection, once it stands; an error when the attempt under way
    /// fails, or `limit` passes.
    pub(super) async fn connection(&self, limit: Duration) -> Result<Arc<DatabaseConnection>> {
        self.supervisor.get(limit).await
    }

    /// How many use it now or want to.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// For good.
    pub(super) fn close(&self) {
        self.supervisor.close();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.close();
    }
}

/// One user of a slot.
pub(super) struct Lent(Arc<Slot>);

impl Lent {
    pub(super) fn new(slot: &Arc<Slot>) -> Self {
        slot.users.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(slot))
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that statements share: how it is made and looked after.
struct Shared {
    dialer: Arc<PoolDialer>,
    report: Option<Report>,
}

impl supervise::SupervisedConnection for Arc<DatabaseConnection> {
    fn is_gone(&self) -> bool {
        DatabaseConnection::is_gone(self)
    }

    fn close(&self) {
        DatabaseConnection::close(self);
    }
}

impl supervise::Supervise for Shared {
    type Connection = Arc<DatabaseConnection>;

    fn clock(&self) -> &Clock {
        &self.dialer.clock
    }

    fn dial(&self) -> impl Future<Output = Result<Arc<DatabaseConnection>>> + Send {
        self.dialer.dial(ConnectionUse::Shared, None)
    }

    async fn look_after(&self, connection: &Arc<DatabaseConnection>) {
        tokio::select! {
            () = look_after(&self.dialer, connection) => {}
            () = self.survey() => {}
        }
        self.dialer.note_break();
        connection.close();
    }

    fn tell(&self, up: bool) {
        if let Some(report) = &self.report {
            report.set(up);
        }
    }

    fn away(&self, why: &'static str) -> Error {
        fault::away(why)
    }
}

impl Shared {
    /// One that was replaced may not know it. Never ends; one slot is enough.
    async fn survey(&self) {
        let clock = &self.dialer.clock;
        while self.report.is_some() {
            clock.sleep_until(clock.now().after(SURVEY)).await;
            self.dialer.survey().await;
        }
        std::future::pending().await
    }
}
