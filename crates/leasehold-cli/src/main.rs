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
mod histogram;
mod line;
mod output;
mod scratch;
mod signals;
mod table;
mod text;
mod who;

use std::process::ExitCode;

use crate::args::{Asked, Inner};
use crate::failure::Failure;

fn main() -> ExitCode {
    let done = args::parse().and_then(|asked| asked.map_or(Ok(0), obey));
    done.map_or_else(|failure| failure.report(), ExitCode::from)
}

fn obey(asked: Asked) -> Result<u8, Failure> {
    match asked {
        // Becomes the user's command; never needs a runtime.
        Asked::Inner(Inner::Start(start)) => Err(cmd::run::start(&start)),
        Asked::Inner(Inner::Guard(guard)) => runtime()?.block_on(cmd::run::guard(&guard)),
        Asked::Inner(Inner::Peer(peer)) => runtime()?.block_on(cmd::bench::peer(&peer)),
        Asked::Cli(cli) => runtime()?.block_on(cmd::obey(cli.global, cli.command)),
    }
}

/// One thread: the library renews leases on a thread of its own, and the
/// kernel ties the child's life to the very thread that started it.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|cause| Failure::internal(format!("cannot start the runtime: {cause}")))
}
