//! `once` and `token`: their options and their help.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration;

const EXAMPLES: &str = "\
Examples:
  leasehold once invoice/2024-07 -- ./send-invoices.sh    runs, and is remembered
  leasehold once invoice/2024-07 -- ./send-invoices.sh    says the same, does nothing
  leasehold once migrate/17 --at-most-once -- ./migrate 17
  leasehold once migrate/17 --forget                      it may run again

The command runs once for each key. Whoever comes again, on any host that shares
the engine, gets the same standard output, standard error and exit code without
running it; whoever comes meanwhile waits.

If it is cut off in the middle (its lease is lost, its host dies, or HUP, INT,
QUIT or TERM ends it), the next one runs it again, with LEASEHOLD_TOOK_OVER=1;
with --at-most-once nobody does. All that the command has started ends before
that, as with `leasehold run`.

A run ends with its command. What that leaves in the background goes on; it does
not keep others waiting, and what it says later is not kept.

Environment of the command:
  LEASEHOLD_FENCE      the fencing number of this run: hand it to what you write
                       to, which must refuse a smaller one than it has seen
  LEASEHOLD_TOOK_OVER  1 if a run before was cut off, else 0

Exit codes:
  the command's own, or 128+N if signal N ended it; and
   75  it is running elsewhere: --no-wait, or --wait ran out
   76  the lease was lost before the command ended, and it was stopped
  129, 130, 131, 143  HUP, INT, QUIT or TERM has ended it: it was cut off
   78  it was done, or begun and cut off, and nobody knows how it ended
    2  wrong use, or the key was used for another command
   69  engine not reachable       70  internal error";

/// Run a command once for each key, and replay what it said
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Once {
    /// The key
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) terms: Terms,

    /// Forget the key, so that the next one runs
    #[arg(long, conflicts_with = "command")]
    pub(crate) forget: bool,

    /// The command and its arguments
    #[arg(last = true, required_unless_present = "forget", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What `once` and `token redeem` have in common.
#[derive(Args)]
pub(crate) struct Terms {
    /// What keys are for; keys of two scopes do not meet
    #[arg(long, value_name = "WORD", default_value = "command")]
    pub(crate) scope: String,

    /// How long the outcome is kept
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// Others may run it this long after a host has died
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) lease: Duration,

    /// Wait for a run elsewhere this long at most [default: without limit]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait for a run elsewhere
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Do not run again what was cut off
    #[arg(long)]
    pub(crate) at_most_once: bool,

    /// Do not remember a run that ended with another code than 0
    #[arg(long)]
    pub(crate) retry_failed: bool,
}

/// Issue and redeem one-time tokens
#[derive(Args)]
#[command(after_help = "\
Examples:
  export LEASEHOLD_TOKEN_SECRETS=1:$(openssl rand -hex 32)
  token=$(leasehold token issue --scope orders --ttl 15m)
  leasehold token redeem $token --scope orders -- ./order.sh     runs once
  leasehold token redeem $token --scope orders -- ./order.sh     says the same

LEASEHOLD_TOKEN_SECRETS holds NUMBER:SECRET pairs with commas between them, each
secret of 32 characters at least. New tokens are signed with the first, and all
are accepted: to rotate, put a new pair in front.

Issuing writes nothing. A token that is forged, expired or of another scope is
refused with exit code 77; otherwise the codes are those of `leasehold once`.")]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(Subcommand)]
pub(crate) enum TokenAction {
    /// Print a new token
    #[command(after_help = "Examples:\n  leasehold token issue --scope orders --ttl 15m")]
    Issue(Issue),
    /// Run a command if the token was not redeemed, and replay what it said
    #[command(after_help = "Examples:\n  leasehold token redeem $token -- ./order.sh")]
    Redeem(Redeem),
}

#[derive(Args)]
pub(crate) struct Issue {
    /// What the token is for
    #[arg(long, value_name = "WORD", default_value = "command")]
    pub(crate) scope: String,

    /// Whom it is for
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) subject: String,

    /// How long it can be redeemed
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub(crate) ttl: Duration,
}

#[derive(Args)]
pub(crate) struct Redeem {
    /// The token
    pub(crate) token: String,

    /// Whom it is for
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) subject: String,

    #[command(flatten)]
    pub(crate) terms: Terms,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
