//! Locks on zookeeper.

use std::sync::Arc;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::url::Url;

/// Opens the engine. Called on home.
pub(super) async fn open(_url: &Url, _clock: Clock) -> Result<Arc<dyn Engine>> {
    todo!("open")
}
