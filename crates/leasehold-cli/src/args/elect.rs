//! `elect`: its options and its help.

use clap::Args;

use super::{Job, aim};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  leasehold elect scheduler -- ./scheduler
  leasehold elect scheduler --value 10.0.0.7:8080 -- ./scheduler --port 8080
  leasehold elect scheduler --no-wait -- ./scheduler      or not at all (exit code 75)
  leasehold observe scheduler                             who leads, as it changes

Of all who campaign for a name one leads, and the others wait in line. The command
runs while it leads; whoever observes is told the value. When the command ends,
leasehold resigns, and the next one leads at once. To campaign again after each
reign, let a service manager start it again, or a loop.

An engine without records can tell observers nothing: it takes --value \"\".

Environment of the command: as with `leasehold run`; LEASEHOLD_FENCE is larger
than that of every leader before.

Exit codes:
  the command's own, or 128+N if signal N ended it; and
   75  another one leads: --no-wait, or --wait ran out (see --busy-code)
   76  the lead was lost, evicted or older than --max-hold before the command had
       ended; if it still ran, it was stopped
    2  wrong use      69  engine not reachable       70  internal error
  126  cannot be executed   127  not found   130, 143  interrupted while waiting

When the lead is lost the command and all that it has started are stopped before
another one can lead: see `leasehold run --help`, which says how, and how far.";

/// Run a command while leading an election
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Elect {
    /// The name of the election
    pub(crate) name: String,

    /// What observers are told, such as an address [default: user@host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,

    #[command(flatten)]
    pub(crate) job: Job,
}

impl Elect {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(&self.name)
    }
}
