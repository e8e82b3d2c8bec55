//! The leases that are not over: what is asked for anew, and what is kept alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::EtcdLink;
use crate::clock::Moment;
use crate::engines::consensus::Session;

/// The sessions that are not over, by what was asked for.
pub(super) struct LiveLeases {
    link: Arc<EtcdLink>,
    table: Mutex<LiveTable>,
}

#[derive(Default)]
struct LiveTable {
    sessions: BTreeMap<Span, Arc<Session>>,
    /// When the last of them ended, and all was told lost.
    emptied: Moment,
}

/// What a session is asked to be, in seconds: the servers keep it for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) ttl: i64,
    pub(super) delay: i64,
}

impl LiveLeases {
    pub(super) fn new(link: &Arc<EtcdLink>) -> Arc<Self> {
        Arc::new(Self { link: Arc::clone(link), table: Mutex::default() })
    }

    pub(super) fn get(&self, span: Span) -> Option<Arc<Session>> {
        self.table().sessions.get(&span).map(Arc::clone)
    }

    /// One was granted for this: whether it is taken. What was asked for before all
    /// was told lost would be taken for lost with it, and has to be proven first.
    pub(super) fn put(&self, span: Span, session: &Arc<Session>) -> bool {
        let mut table = self.table();
        let taken = session.proven() > table.emptied;
        if taken {
            table.sessions.insert(span, Arc::clone(session));
            self.link.state_publisher().new_session();
        }
        taken
    }

    /// All of them; none is left.
    pub(super) fn take(&self) -> BTreeMap<Span, Arc<Session>> {
        std::mem::take(&mut self.table().sessions)
    }

    /// The servers have said that it is over.
    pub(super) fn over(&self, session: &Session) {
        session.end();
        let mut table = self.table();
        let before = table.sessions.len();
        table.sessions.retain(|_, other| other.id() != session.id());
        if before > 0 && table.sessions.is_empty() {
            self.link.state_publisher().no_session();
            table.emptied = self.link.clock().now();
        }
    }

    fn table(&self) -> MutexGuard<'_, LiveTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
