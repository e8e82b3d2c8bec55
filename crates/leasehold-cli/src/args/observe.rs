//! `observe`: its options and its help.

use clap::Args;

use super::aim;
use crate::failure::Failure;

/// Show who leads an election, now and at each change
///
/// One line per change, with --json one object per line. Of changes that follow
/// each other closely the last one is told; never a leader from before.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold observe scheduler
  leasehold observe scheduler --once
  leasehold observe scheduler --once --json | jq -r .value
  leasehold observe scheduler --json | while read -r line; do ./reload \"$line\"; done

JSON: one object per line, with
  at (RFC 3339), event, name, namespace, fence, value, label
  event: leader, nobody (nobody leads, or nobody has said so yet), unsure (the
    connection is gone: whoever led may not lead any more)
  Without a leader fence, value and label are null.

Exit codes: 0 after Ctrl-C, or when the reader of a pipe has gone; 128+N after
signal N; 1 with --once if nobody leads.")]
pub(crate) struct Observe {
    /// The name of the election
    pub(crate) name: String,

    /// Show the present leader, and no more
    #[arg(long)]
    pub(crate) once: bool,
}

impl Observe {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(&self.name)
    }
}
