//! Leases in tables.

pub(super) mod sqlite;
