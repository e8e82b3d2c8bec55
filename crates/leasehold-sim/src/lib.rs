//! A deterministic simulator: the library's own code on a virtual clock, over a
//! network and servers that a schedule decides about, on one thread.
//!
//! Compiled under `--cfg leasehold_sim` alone; see `cargo xtask sim`.
#![cfg(leasehold_sim)]
#![allow(
    clippy::disallowed_methods,
    reason = "the runtime's clock is the simulated one, and a budget is real time"
)]

mod moves;
pub mod net;
pub mod redis;
pub mod trace;
pub mod world;

pub mod campaign;
pub mod engine;
pub mod ledger;
pub mod mutants;
pub mod play;
pub mod regressions;
pub mod scene;
pub mod schedule;
pub mod shrink;
pub mod story;
pub mod users;
