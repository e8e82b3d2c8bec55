//! A place of our own on an engine, for tests and measurements.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use leasehold::Locks;

use crate::failure::Failure;

/// Names that nobody else uses, in a private namespace. The namespace is
/// always the same, because an engine remembers its last fence for ever.
pub(crate) struct Scratch {
    locks: Locks,
    stem: String,
    used: AtomicU64,
}

impl Scratch {
    pub(crate) fn new(locks: &Locks, namespace: &str) -> Result<Self, Failure> {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let stem = format!("{}-{:x}", std::process::id(), since.as_nanos());
        Ok(Self { locks: locks.namespace(namespace)?, stem, used: AtomicU64::new(0) })
    }

    pub(crate) const fn locks(&self) -> &Locks {
        &self.locks
    }

    /// A name that was not used before.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.stem, self.used.fetch_add(1, Ordering::Relaxed))
    }
}
