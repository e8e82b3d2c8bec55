//! Servers that many stores share, each in a database of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::server::{Plan, Server, ServerError};

/// A server that can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A single Redis that keeps nothing on disk.
    Redis,
    /// One of several that know nothing of each other.
    Node(usize),
}

static SERVERS: Mutex<Option<HashMap<Kind, Server>>> = Mutex::new(None);

/// The URL of the server of this kind, which is started if there is none.
pub(super) fn url(kind: Kind) -> Result<String, ServerError> {
    let mut servers = servers();
    let servers = servers.get_or_insert_default();
    if !servers.contains_key(&kind) {
        servers.insert(kind, start(kind)?);
    }
    Ok(servers[&kind].url())
}

fn start(kind: Kind) -> Result<Server, ServerError> {
    match kind {
        Kind::Redis | Kind::Node(_) => Server::start(Plan::redis().args(["--databases", "10000"])),
    }
}

/// A number that no other store of this process has.
pub(super) fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Ends the shared servers; the last thing a test binary does.
pub fn end_servers() {
    drop(servers().take());
}

fn servers() -> MutexGuard<'static, Option<HashMap<Kind, Server>>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
