//! What stores leases.

#[cfg(feature = "sqlite")]
pub mod sql;
