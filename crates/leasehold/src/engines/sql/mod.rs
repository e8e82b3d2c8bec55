//! Leases in tables.

pub mod sqlite;
