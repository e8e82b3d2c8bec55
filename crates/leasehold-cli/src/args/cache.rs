//! `cache`: its options and its help.

use clap::Args;

use super::aim;
use crate::failure::Failure;

/// Show the records below a path, and how they change
///
/// Records are what programs keep beside their locks; elections, groups, barriers,
/// latches and counters are made of them. One line per record: name, version and
/// value, separated by tabs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold cache price                         price/apple, but not price/apple/old
  leasehold cache price --depth all
  leasehold cache price/apple --depth 0         the record itself
  leasehold cache \"\" --json | jq length
  leasehold cache config --follow --json | ./reload

JSON: an array; each element has
  name, namespace, version, value (null, with a problem that says why, if what
  is stored is no JSON)
With --follow one object per line, with at (RFC 3339) and event before them:
  snapshot (all that there is follows, in place of what was told before), there
  (one for each record of it), added, changed, removed (value: the last one),
  synced (all has been told), stale (changes may be missing until it is synced
  again); the first and the last two have no other fields

Exit codes: 0 after Ctrl-C, or when the reader of a pipe has gone; 2 if there is
more than 100,000 records or 64 MiB; see also `leasehold --help`.")]
pub(crate) struct Cache {
    /// The path; "" is above all
    #[arg(value_name = "PREFIX")]
    pub(crate) path: String,

    /// How many segments below the path, or `all`; 0 is the record at the path
    #[arg(long, value_name = "N", value_parser = depth, default_value = "1")]
    pub(crate) depth: usize,

    /// Go on with each change
    #[arg(long)]
    pub(crate) follow: bool,
}

impl Cache {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(&self.path)
    }
}

fn depth(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        number => number.parse().map_err(|_| "write a number, or all".into()),
    }
}
