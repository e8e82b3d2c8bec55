//! `latch`: its options and its help.

use clap::{Args, Subcommand};

use super::{Wait, aim};
use crate::failure::Failure;

/// Set a latch, count it down, or wait until it is open
///
/// A latch that is set opens when it has been counted down to 0; then it can be
/// set anew. Counts stay if whoever has counted goes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold latch set import/7 3
  ./load part-1 && leasehold latch arrive import/7 part-1
  leasehold latch wait import/7 --wait 1h && ./report
  leasehold latch show import/7                    how many are missing

`arrive` can be repeated: each id counts once. `count-down` counts each time; if
its answer was lost nobody knows whether it counted (exit code 78).

All print how many are missing, but wait, which prints nothing.
JSON: an object with name, namespace, left (how many are missing: 0 if it is open)

Exit codes:
   1  set: it is set already      75  wait: --wait ran out
  78  it may have been set or counted: look before you repeat it
  see also `leasehold --help`.")]
pub(crate) struct Latch {
    #[command(subcommand)]
    pub(crate) action: LatchAction,
}

#[derive(Subcommand)]
pub(crate) enum LatchAction {
    /// Close it until it has been counted down this many times
    #[command(after_help = "Examples:\n  leasehold latch set import/7 3")]
    Set {
        /// The name of the latch
        name: String,
        /// How many are to count
        count: u64,
    },
    /// Count down by one
    #[command(after_help = "Examples:\n  leasehold latch count-down import/7")]
    CountDown {
        /// The name of the latch
        name: String,
    },
    /// Count down by one for an id, once however often it is repeated
    #[command(after_help = "Examples:\n  leasehold latch arrive import/7 part-1")]
    Arrive {
        /// The name of the latch
        name: String,
        /// Who arrives
        id: String,
    },
    /// Wait until it is open
    #[command(after_help = "Examples:\n  leasehold latch wait import/7 --wait 1h && ./report")]
    Wait(Wait),
    /// Show how many are missing: 0 if it is open
    #[command(after_help = "Examples:\n  leasehold latch show import/7")]
    Show {
        /// The name of the latch
        name: String,
    },
}

impl Latch {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(self.name())
    }

    pub(crate) fn name(&self) -> &str {
        match &self.action {
            LatchAction::Set { name, .. }
            | LatchAction::CountDown { name }
            | LatchAction::Arrive { name, .. }
            | LatchAction::Wait(Wait { name, .. })
            | LatchAction::Show { name } => name,
        }
    }
}
