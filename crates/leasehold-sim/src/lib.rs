//! A deterministic simulator: the library's own code on a virtual clock, over a
//! network and servers that a schedule decides about, on one thread.
//!
//! Compiled under `--cfg leasehold_sim` alone; see `cargo xtask sim`.
#![cfg(leasehold_sim)]

mod moves;
pub mod net;
pub mod redis;
pub mod trace;
pub mod world;
