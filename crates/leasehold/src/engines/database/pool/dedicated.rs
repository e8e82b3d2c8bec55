//! A connection for one owner.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::dial::PoolDialer;
use crate::engines::database::drivers::{ConnectionUse, DatabaseConnection};
use crate::engines::database::drivers::{Reply, Value};
use crate::engines::kit::timeout::timeout;
use crate::error::Result;

/// How often a connection whose end is not noticed by itself is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Never shared; closed when dropped, whatever was under way.
pub(crate) struct Dedicated {
    connection: Arc<DatabaseConnection>,
    dialer: Arc<PoolDialer>,
}

/// Tells whether a connection has ended, without being in the way of its owner.
#[derive(Debug)]
pub(crate) struct AliveCheck(Weak<DatabaseConnection>);

impl AliveCheck {
    pub(crate) fn is_gone(&self) -> bool {
        self.0.upgrade().is_none_or(|connection| connection.is_gone())
    }
}

impl Dedicated {
    pub(super) async fn open(dialer: &Arc<PoolDialer>) -> Result<Self> {
        let connection = dialer.dial(ConnectionUse::Own, None).await?;
        Ok(Self { connection, dialer: Arc::clone(dialer) })
    }

    /// One statement, for as long as it takes. If the future is dropped, the
    /// connection is of no use any more.
    pub(crate) async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<Reply> {
        let done = self.connection.run(&sql.into(), &values).await;
        done.map_err(|fault| {
            if fault.broken {
                self.connection.close();
            }
            fault.error.with("server", self.connection.address())
        })
    }

    /// Resolves as soon as the connection has died or its server was replaced.
    /// Does not keep it alive.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let (gone, connection) = (self.connection.gone(), Arc::downgrade(&self.connection));
        let (dialer, address) = (Arc::clone(&self.dialer), self.connection.address().clone());
        async move {
            tokio::select! {
                () = gone => {}
                () = dialer.replaced(&address) => {}
                () = silent(connection, &dialer) => {}
            }
        }
    }

    pub(crate) fn alive(&self) -> AliveCheck {
        AliveCheck(Arc::downgrade(&self.connection))
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(crate) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        self.connection.cancel()
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        self.connection.close();
    }
}

impl std::fmt::Debug for Dedicated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dedicated({})", self.connection.address())
    }
}

/// Until the other side does not answer any more, or nobody wants to know. One
/// that is at work for us will be seen to end by its work.
async fn silent(connection: Weak<DatabaseConnection>, dialer: &PoolDialer) {
    loop {
        dialer.clock.sleep_until(dialer.clock.now().after(LOOK)).await;
        let Some(connection) = connection.upgrade() else { return };
        if timeout(&dialer.clock, dialer.settings.timeout, connection.is_well()).await != Some(true)
        {
            return connection.close();
        }
    }
}
