//! The command, as its users meet it: real processes, one engine, exit codes.
#![allow(clippy::disallowed_methods, reason = "tests wait for other processes")]

mod bench;
mod cache;
mod doctor;
mod elect;
mod group;
mod guardian;
mod id;
mod inspect;
mod loss;
mod modes;
mod once;
mod pages;
mod recipes;
mod run;
mod schema;
mod signals;
mod terminal;
mod usage;
mod util;
mod watch;
