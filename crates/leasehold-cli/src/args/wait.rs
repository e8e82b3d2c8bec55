//! A wait for something of a name.

use std::time::Duration;

use clap::Args;

/// What is waited for, and for how long.
#[derive(Args)]
pub(crate) struct Wait {
    /// The name
    pub(crate) name: String,

    /// Wait at most this long; then the exit code is 75 [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) wait: Option<Duration>,
}
