//! A connection for one owner.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::dial::Dialer;
use super::value::{Reply, Value};
use super::wire::{Kind, Wire};
use super::within;
use crate::error::Result;

/// How often a connection whose end is not noticed by itself is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Never shared; closed when dropped, whatever was under way.
pub(in crate::engines::sql) struct Dedicated {
    wire: Arc<Wire>,
    dialer: Arc<Dialer>,
}

/// Tells whether a connection has ended, without being in the way of its owner.
#[derive(Debug)]
pub(in crate::engines::sql) struct Pulse(Weak<Wire>);

impl Pulse {
    pub(in crate::engines::sql) fn is_gone(&self) -> bool {
        self.0.upgrade().is_none_or(|wire| wire.is_gone())
    }
}

impl Dedicated {
    pub(super) async fn open(dialer: &Arc<Dialer>) -> Result<Self> {
        let wire = dialer.dial(Kind::Own, None).await?;
        Ok(Self { wire, dialer: Arc::clone(dialer) })
    }

    /// One statement, for as long as it takes. If the future is dropped, the
    /// connection is of no use any more.
    pub(in crate::engines::sql) async fn run(
        &mut self,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Reply> {
        let done = self.wire.run(&sql.into(), &values).await;
        done.map_err(|fault| {
            if fault.broken {
                self.wire.close();
            }
            fault.error.with("server", self.wire.address())
        })
    }

    /// Resolves as soon as the connection has died or its server was replaced.
    /// Does not keep it alive.
    pub(in crate::engines::sql) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let (gone, wire) = (self.wire.gone(), Arc::downgrade(&self.wire));
        let (dialer, address) = (Arc::clone(&self.dialer), self.wire.address().clone());
        async move {
            tokio::select! {
                () = gone => {}
                () = dialer.replaced(&address) => {}
                () = silent(wire, &dialer) => {}
            }
        }
    }

    pub(in crate::engines::sql) fn pulse(&self) -> Pulse {
        Pulse(Arc::downgrade(&self.wire))
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(in crate::engines::sql) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        self.wire.cancel()
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        self.wire.close();
    }
}

impl std::fmt::Debug for Dedicated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dedicated({})", self.wire.address())
    }
}

/// Until the other side does not answer any more, or nobody wants to know. One
/// that is at work for us will be seen to end by its work.
async fn silent(wire: Weak<Wire>, dialer: &Dialer) {
    loop {
        dialer.clock.sleep_until(dialer.clock.now().after(LOOK)).await;
        let Some(wire) = wire.upgrade() else { return };
        if within(&dialer.clock, dialer.settings.timeout, wire.is_well()).await != Some(true) {
            return wire.close();
        }
    }
}
