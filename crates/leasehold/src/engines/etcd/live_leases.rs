//! The leases that are not over: what is asked for anew, and what is kept alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::EtcdLink;
use crate::engines::consensus::Session;

/// The sessions that are not over, by what was asked for.
pub(super) struct LiveLeases {
    link: Arc<EtcdLink>,
    table: Mutex<BTreeMap<Span, Arc<Session>>>,
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
        self.table().get(&span).map(Arc::clone)
    }

    /// One was granted for this.
    pub(super) fn put(&self, span: Span, session: &Arc<Session>) {
        self.table().insert(span, Arc::clone(session));
        self.link.state_publisher().new_session();
    }

    /// All of them; none is left.
    pub(super) fn take(&self) -> BTreeMap<Span, Arc<Session>> {
        std::mem::take(&mut *self.table())
    }

    /// The servers have said that it is over.
    pub(super) fn over(&self, session: &Session) {
        session.end();
        let mut table = self.table();
        let before = table.len();
        table.retain(|_, other| other.id() != session.id());
        if before > 0 && table.is_empty() {
            self.link.state_publisher().no_session();
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Span, Arc<Session>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
