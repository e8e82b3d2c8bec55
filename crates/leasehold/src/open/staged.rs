//! Engines that no URL names: what the simulator puts behind the contract.

use std::sync::Arc;
use std::time::Duration;

use super::layered;
use crate::claim::Ticket;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engines::memory::Memory;
use crate::error::Result;
use crate::layers::retry::Retry;
use crate::locks::Locks;

/// Makes a lease end after a span at the latest.
pub type Shorten = Box<dyn Fn(&Ticket, Duration) + Send + Sync>;

/// The pure core and its records, by the clock of whoever asks; and a way to
/// shorten its leases, as a server does whose limits have changed.
#[must_use]
pub fn core() -> (Arc<dyn Engine>, Shorten) {
    let core = Arc::new(Memory::new(Clock::System));
    let same = Arc::clone(&core);
    (core, Box::new(move |ticket, most| same.shorten(ticket, most)))
}

/// A quorum over these engines; a node has so long to answer.
///
/// # Errors
///
/// Those of opening a quorum.
///
/// # Cancel safety
///
/// What a dropped call has begun ends with it.
pub async fn quorum(nodes: Vec<Arc<dyn Engine>>, patience: Duration) -> Result<Arc<dyn Engine>> {
    crate::engines::over(nodes, Clock::System, patience).await
}

/// A client of this engine, with all layers around it.
///
/// # Errors
///
/// Those of [`Locks::on`].
pub fn locks(engine: Arc<dyn Engine>, retry: Retry) -> Result<Locks> {
    Locks::on(layered(engine, retry), Clock::System)
}
