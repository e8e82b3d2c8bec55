//! The sessions of one client, as it knows them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::state::SessionId;

/// Leases come to be renewed in portions. Within this fraction of the ttl, one
/// extension of the session that they share is enough for all of them.
const JUST: u32 = 16;

/// A session as this client knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSession {
    pub(super) id: SessionId,
    /// Until when it certainly runs, by our clock.
    pub(super) until: Moment,
    pub(super) fixed: bool,
    /// The last time it was extended, if nothing has cast doubt on that since.
    pub(super) extended: Option<Extension>,
}

/// What a session was asked to live for, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension {
    pub(super) sent_at: Moment,
    pub(super) ttl: Duration,
    pub(super) delay: Duration,
}

impl Extension {
    /// Whether another one would change next to nothing.
    fn serves(&self, ttl: Duration, delay: Duration, now: Moment) -> bool {
        ttl <= self.ttl && delay <= self.delay && now.since(self.sent_at) <= ttl / JUST
    }
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

    /// What is left of a session that was only just extended, and since when.
    pub(super) fn just_extended(
        &self,
        id: SessionId,
        ttl: Duration,
        delay: Duration,
        now: Moment,
    ) -> Option<(Duration, Moment)> {
        let session = self.get(id)?;
        let extension = session.extended.filter(|it| it.serves(ttl, delay, now))?;
        Some((session.until.since(extension.sent_at), extension.sent_at))
    }

    /// The server that answered may have been replaced by one that knows less.
    pub(super) fn doubt(&self) {
        self.known().values_mut().for_each(|session| session.extended = None);
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
