//! Thin skins over a lease, written once for all engines.

pub(crate) mod mutex;
