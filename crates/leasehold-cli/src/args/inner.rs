//! The commands that leasehold gives itself; users never see them.

use std::ffi::OsString;

use clap::{Args, Parser};

/// The word for [`Start`] on the command line.
pub(crate) const START: &str = "__start";
/// The word for [`Peer`] on the command line.
pub(crate) const PEER: &str = "__peer";

#[derive(Parser)]
pub(crate) enum Inner {
    #[command(name = START)]
    Start(Start),
    #[command(name = PEER)]
    Peer(Peer),
}

impl Inner {
    /// Whether a command line is one of these.
    pub(crate) fn is_meant() -> bool {
        std::env::args_os().nth(1).is_some_and(|word| word == START || word == PEER)
    }
}

/// The step between `run` and its command: ties its own life to `run`'s, then
/// becomes the command. Only the new process itself can do that.
#[derive(Args)]
pub(crate) struct Start {
    /// Die with this process
    #[arg(long)]
    pub(crate) tether: Option<u32>,

    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// The other process of `bench`. Its engine is in the environment, because
/// others can read a command line.
#[derive(Args)]
pub(crate) struct Peer {
    pub(crate) name: String,
}
