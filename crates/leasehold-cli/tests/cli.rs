//! The command, as its users meet it: real processes, one engine, exit codes.
#![allow(clippy::disallowed_methods, reason = "tests wait for other processes")]

mod inspect;
mod loss;
mod run;
mod signals;
mod terminal;
mod usage;
mod util;
