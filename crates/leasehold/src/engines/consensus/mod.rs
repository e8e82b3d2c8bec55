//! Locks on a consensus store, whichever it is.

mod ensemble;
mod session;

pub(in crate::engines) use ensemble::{
    Card, Change, Ensemble, Entry, If, Joined, Life, Line, Newcomer, News, Part, Step, Value,
    Watched, WatchedLine,
};
pub(in crate::engines) use session::Session;

use std::sync::Arc;

use crate::clock::Clock;
use crate::engine::Engine;

/// An engine on `ensemble`. Called on home.
pub(in crate::engines) fn engine<E: Ensemble>(_ensemble: E, _clock: Clock) -> Arc<dyn Engine> {
    todo!("the lock algorithm")
}
