//! `barrier`: its options and its help.

use clap::{Args, Subcommand};

use super::{Wait, aim};
use crate::failure::Failure;

/// Open or close a barrier, or wait until it is open
///
/// A barrier is open until somebody closes it. It stays closed until somebody
/// opens it, whoever has died meanwhile.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold barrier close migration
  leasehold barrier wait migration && ./serve
  leasehold barrier wait migration --wait 10m || echo 'still closed'
  leasehold barrier open migration

JSON: an object with name, namespace, closed (true or false), changed (whether
this command has opened or closed it; null for wait)

Exit codes: 75 if --wait ran out; see also `leasehold --help`.")]
pub(crate) struct Barrier {
    #[command(subcommand)]
    pub(crate) action: BarrierAction,
}

#[derive(Subcommand)]
pub(crate) enum BarrierAction {
    /// Wait until it is open
    #[command(after_help = "Examples:\n  leasehold barrier wait migration --wait 10m && ./serve")]
    Wait(Wait),
    /// Open it: all who wait go on
    #[command(after_help = "Examples:\n  leasehold barrier open migration")]
    Open {
        /// The name of the barrier
        name: String,
    },
    /// Close it; closed already is no error
    #[command(after_help = "Examples:\n  leasehold barrier close migration")]
    Close {
        /// The name of the barrier
        name: String,
    },
}

impl Barrier {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(self.name())
    }

    pub(crate) fn name(&self) -> &str {
        match &self.action {
            BarrierAction::Wait(Wait { name, .. })
            | BarrierAction::Open { name }
            | BarrierAction::Close { name } => name,
        }
    }
}
