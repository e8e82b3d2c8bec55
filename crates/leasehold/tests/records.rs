//! Records: what every engine that keeps them must do, checked on each, and
//! the typed handle above them.
#![cfg(all(feature = "sqlite", feature = "records"))]

#[path = "records/contract.rs"]
mod contract;
#[path = "records/typed.rs"]
mod typed;
