//! Thin skins over a lease, written once for all engines.

pub(crate) mod all;
#[cfg(feature = "records")]
pub(crate) mod barrier;
#[cfg(feature = "records")]
pub(crate) mod cache;
#[cfg(feature = "records")]
pub(crate) mod counter;
#[cfg(feature = "records")]
pub(crate) mod double_barrier;
#[cfg(feature = "records")]
pub(crate) mod election;
#[cfg(feature = "records")]
pub(crate) mod group;
#[cfg(feature = "ids")]
pub mod ids;
#[cfg(feature = "records")]
pub(crate) mod latch;
#[cfg(feature = "records")]
mod live_record;
#[cfg(feature = "records")]
mod lost_race;
pub(crate) mod mutex;
#[cfg(feature = "once")]
pub(crate) mod once;
#[cfg(feature = "records")]
mod presence;
#[cfg(feature = "records")]
mod present_record;
#[cfg(feature = "records")]
pub(crate) mod record;
#[cfg(feature = "records")]
pub(crate) mod records;
pub(crate) mod request_builder;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
#[cfg(feature = "records")]
pub(crate) mod versioned;
#[cfg(feature = "records")]
pub(crate) mod watch;
