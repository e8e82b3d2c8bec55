//! Thin skins over a lease, written once for all engines.

pub(crate) mod all;
pub(crate) mod asker;
#[cfg(feature = "ids")]
pub mod ids;
pub(crate) mod mutex;
#[cfg(feature = "once")]
pub(crate) mod once;
#[cfg(feature = "records")]
pub(crate) mod record;
#[cfg(feature = "records")]
pub(crate) mod records;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
