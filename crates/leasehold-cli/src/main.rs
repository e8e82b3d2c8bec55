//! The `leasehold` command: run something under a lock, and look after leases.
#![allow(
    clippy::disallowed_methods,
    reason = "the bans guard the library's clock; a command sleeps and reads the date for itself"
)]
#![allow(clippy::future_not_send, reason = "one thread runs the command from end to end")]

mod args;
mod cmd;
mod engine;
mod failure;
mod output;
mod text;
mod who;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let done = args::parse().and_then(|cli| match cli {
        Some(cli) => obey(cli),
        None => Ok(0),
    });
    done.map_or_else(|failure| failure.report(), ExitCode::from)
}

fn obey(cli: Cli) -> Result<u8, Failure> {
    match cli.command {
        // Becomes the user's command; never needs a runtime.
        Command::Start(start) => Err(cmd::run::start(&start)),
        command => runtime()?.block_on(cmd::obey(&cli.global, command)),
    }
}

/// One thread: the library renews leases on a thread of its own, and the
/// kernel ties the child's life to the very thread that started it.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|cause| Failure::internal(format!("cannot start the runtime: {cause}")))
}
