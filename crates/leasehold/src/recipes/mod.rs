//! Thin skins over a lease, written once for all engines.

pub(crate) mod all;
pub(crate) mod asker;
pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
