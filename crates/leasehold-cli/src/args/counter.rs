//! `counter`: its options and its help.

use clap::{Args, Subcommand};

use super::aim;
use crate::failure::Failure;

/// Read a counter, or add to it
///
/// One whole number of 64 bits for all; what does not exist is 0.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold counter add stock 100
  leasehold counter add stock -3
  leasehold counter get stock

Both print the number. An add whose answer was lost is never repeated: it would
count twice.
JSON: an object with name, namespace, value

Exit codes: 2 if the sum does not fit into 64 bits, and nothing is changed then;
78 if it may have been added: look before you repeat it; see also
`leasehold --help`.")]
pub(crate) struct Counter {
    #[command(subcommand)]
    pub(crate) action: CounterAction,
}

#[derive(Subcommand)]
pub(crate) enum CounterAction {
    /// Show the number
    #[command(after_help = "Examples:\n  leasehold counter get stock")]
    Get {
        /// The name of the counter
        name: String,
    },
    /// Add an amount, which may be below zero, and show the new number
    #[command(
        after_help = "Examples:\n  leasehold counter add stock 100\n  leasehold counter add stock -3"
    )]
    Add {
        /// The name of the counter
        name: String,
        /// How much to add
        #[arg(allow_negative_numbers = true)]
        amount: i64,
    },
}

impl Counter {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(self.name())
    }

    pub(crate) fn name(&self) -> &str {
        match &self.action {
            CounterAction::Get { name } | CounterAction::Add { name, .. } => name,
        }
    }
}
