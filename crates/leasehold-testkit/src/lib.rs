//! Real servers and faults for Leasehold's tests.
//!
//! | file | what a test gets |
//! |---|---|
//! | [`server`] | a real redis-server, postgres or etcd on a free loopback port |
//! | [`proxy`] | a TCP proxy that delays, loses, cuts, holds and resets on command |
//! | [`narrow`] | which engines this run was told to test |
//!
//! Nothing here stands in for a server, and nothing is skipped in silence.

// The clippy ban on clocks, sleeps and spawns guards the library, whose tests
// need a clock they can stop. This crate waits for real processes and sockets.
#![allow(clippy::disallowed_methods)]

pub mod narrow;
pub mod proxy;
pub mod server;

pub use proxy::{Fault, FaultProxy, Way};
pub use server::Server;
