//! One lease API, from a mutex inside a process to a fleet on etcd.
pub mod claim;
pub mod clock;
pub mod engine;
pub mod engines;
pub mod error;
pub mod name;
