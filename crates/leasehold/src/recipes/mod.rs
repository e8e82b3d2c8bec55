//! Thin skins over a lease, written once for all engines.

pub(crate) mod asker;
pub(crate) mod mutex;
