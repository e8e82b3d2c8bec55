//! The sessions of one client, as it knows them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::state::SessionId;

/// A session as this client knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSession {
    pub(super) id: SessionId,
    /// Until when it certainly runs, by our clock.
    pub(super) until: Moment,
    pub(super) fixed: bool,
}

/// The sessions of this client.
#[derive(Debug, Default)]
pub(super) struct TableSessions {
    /// Whoever makes or extends one is the only one to do so.
    pub(super) shared: tokio::sync::Mutex<HashMap<(Duration, Duration), SessionId>>,
    known: Mutex<HashMap<SessionId, TableSession>>,
}

impl TableSessions {
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<SessionId, TableSession>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: SessionId) -> Option<TableSession> {
        self.known().get(&id).copied()
    }

    pub(super) fn forget(&self, id: SessionId) -> Option<TableSession> {
        self.known().remove(&id)
    }

    /// Whether it keeps one lease that is not renewed.
    pub(super) fn is_fixed(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(|table_session| table_session.fixed)
    }

    /// All that are known.
    pub(super) fn all(&self) -> Vec<SessionId> {
        self.known().keys().copied().collect()
    }
}
