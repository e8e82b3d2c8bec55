//! `group`: its options and its help.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{aim, duration};
use crate::failure::Failure;

/// Show who is in a group, or be a member while a command runs
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold group join workers node-1 --payload 10.0.0.7:8080 -- ./worker
  leasehold group ls workers
  leasehold group ls workers --json | jq -r '.[].payload'
  leasehold group watch workers --json

JSON of ls: an array; of watch: one object per line and change, with at
(RFC 3339), event, group, namespace before the same fields:
  id, payload, label
  event: joined (at the start, one for each who is here), changed (another
    payload), left; synced (all who are here have been told), stale (changes may
    be missing until it is synced again). Of these two the fields are null.

Exit codes: 0 after Ctrl-C (watch), or when the reader of a pipe has gone;
see `leasehold group join --help`, and `leasehold --help`.")]
pub(crate) struct Group {
    #[command(subcommand)]
    pub(crate) action: GroupAction,
}

#[derive(Subcommand)]
pub(crate) enum GroupAction {
    /// List who is here: id, payload, label
    #[command(
        after_help = "Examples:\n  leasehold group ls workers\n  leasehold group ls workers --json"
    )]
    Ls {
        /// The name of the group
        name: String,
    },
    Join(Box<Join>),
    /// Show who is here, and who comes and goes
    #[command(
        after_help = "Examples:\n  leasehold group watch workers\n  leasehold group watch workers --json"
    )]
    Watch {
        /// The name of the group
        name: String,
    },
}

/// Be a member while a command runs
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold group join workers node-1 -- ./worker
  leasehold group join workers $HOSTNAME --payload 10.0.0.7:8080 -- ./worker --port 8080

It leaves the group when the command ends. Whoever was cut off from the engine for
a ttl has left, as others see it, and joins again by itself; the command runs on
meanwhile. If another one has taken the id by then, the command is stopped.
If leasehold is killed (-9), so is the command, and all that it has started.

Environment of the command:
  LEASEHOLD_NAME    the name of the group
  LEASEHOLD_MEMBER  the id
  LEASEHOLD_LABEL   what others see as the process

Exit codes:
  the command's own, or 128+N if signal N ended it; and
   75  another member has this id
   76  another member has taken this id, and the command was stopped
    2  wrong use      69  engine not reachable       70  internal error
  126  cannot be executed   127  not found")]
pub(crate) struct Join {
    /// The name of the group
    pub(crate) name: String,

    /// Who joins: nobody else may have this id
    pub(crate) id: String,

    /// What others are told, such as an address
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) payload: String,

    /// Gone at most this long after leasehold's last sign of life
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// What others see as the process [default: user@host:pid and the command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl Group {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.action {
            GroupAction::Ls { name } | GroupAction::Watch { name } => aim::is_name(name),
            GroupAction::Join(join) => aim::is_name(&join.name),
        }
    }
}
