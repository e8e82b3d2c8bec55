//! Engines that no URL names: what the simulator puts behind the contract.

use std::sync::Arc;
use std::time::Duration;

use super::layered;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engines::memory::Memory;
use crate::error::Result;
use crate::layers::retry::Retry;
use crate::locks::Locks;

/// The pure core and its records, by the clock of whoever asks.
#[must_use]
pub fn core() -> Arc<dyn Engine> {
    Arc::new(Memory::new(Clock::System))
}

/// A quorum over these engines; a node has so long to answer.
///
/// # Errors
///
/// Those of opening a quorum.
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
