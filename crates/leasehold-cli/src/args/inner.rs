//! The commands that leasehold gives itself; users never see them.

use std::ffi::OsString;

use clap::{Args, Parser};

/// The word for [`Guard`] on the command line.
pub(crate) const GUARD: &str = "__guard";
/// The word for [`Start`] on the command line.
pub(crate) const START: &str = "__start";
/// The word for [`Peer`] on the command line.
pub(crate) const PEER: &str = "__peer";

#[derive(Parser)]
pub(crate) enum Inner {
    #[command(name = GUARD)]
    Guard(Guard),
    #[command(name = START)]
    Start(Start),
    #[command(name = PEER)]
    Peer(Peer),
}

impl Inner {
    /// Whether a command line is one of these.
    pub(crate) fn is_meant() -> bool {
        std::env::args_os()
            .nth(1)
            .is_some_and(|word| [GUARD, START, PEER].iter().any(|it| word == *it))
    }
}

/// The process above a command, which ends it when the `leasehold` that runs it
/// is gone. Its standard input is the wire to that one.
#[derive(Args)]
pub(crate) struct Guard {
    /// End nothing
    #[arg(long)]
    pub(crate) leave: bool,

    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// The step between the guardian and its command: ties its own life to the
/// guardian's, then becomes the command. Only the new process itself can do that.
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
