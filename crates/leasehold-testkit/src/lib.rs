//! Real servers, faults and history checks for Leasehold's tests.
//!
//! | file | what a test gets |
//! |---|---|
//! | [`server`] | a real redis-server, postgres, etcd or zookeeper on a free loopback port |
//! | [`znodes`] | a look into a ZooKeeper, and a hand in it |
//! | [`proxy`] | a TCP proxy that delays, loses, cuts, holds and resets on command |
//! | [`history`] | one JSON line per lock event, written by many threads and processes |
//! | [`grant`] | a lease's whole life, put together from its events |
//! | [`register`] | a resource that checks fences, shared by many processes |
//! | [`check`] | the checkers that read both and name the two operations that clash |
//! | [`contest`] | clients that contend for a few names while a server is shaken |
//! | [`audience`] | one who listens to a cache, and holds it to what it promises |
//! | [`sweep`] | drops a future at every point where it can be dropped |
//! | [`conformance`] | what every engine must do: one trial per check |
//! | [`holder`] | a process that holds locks and can be killed |
//! | [`peer`] | a client of another language, or ours, as a process |
//! | [`below`] | an engine whose names lie below a path |
//! | [`twist`] | an engine with one thing changed |
//! | [`faulty_records`] | records whose replies are lost or late, and whose changes are missed |
//! | [`mutants`] | engines that are wrong on purpose, for the suite to find out |
//! | [`place`] | one server of each engine, side by side |
//! | [`worked`] | the processor time of a thread or a process, for benches |
//! | [`narrow`] | which engines this run was told to test |
//!
//! Nothing here stands in for a server, and nothing is skipped in silence.

// The clippy ban on clocks, sleeps and spawns guards the library, whose tests
// need a clock they can stop. This crate waits for real processes and sockets.
#![allow(clippy::disallowed_methods)]

pub mod audience;
pub mod below;
pub mod check;
pub mod conformance;
pub mod contest;
mod curator;
pub mod faulty_records;
mod folder;
pub mod grant;
pub mod history;
pub mod holder;
mod lines;
pub mod links;
pub mod mutants;
pub mod narrow;
pub mod peer;
pub mod place;
pub mod proxy;
pub mod register;
pub mod server;
pub mod soak;
pub mod sweep;
pub mod twist;
pub mod worked;
pub mod znodes;

pub use history::{History, Recorder};
pub use proxy::{Fault, FaultProxy, Way};
pub use register::Register;
pub use server::Server;
pub use sweep::Sweep;
pub use znodes::Znodes;
