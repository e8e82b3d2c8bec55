//! `watch`: its options and its help.

use std::time::Duration;

use clap::Args;

use super::Aim;

/// Show live who holds what and who waits
///
/// On a terminal a table that is redrawn in place; q or Ctrl-C ends it.
/// Otherwise one line per change, with --json one object per line. What begins
/// and ends between two looks is not seen.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold watch
  leasehold watch order/ --every 5s
  leasehold watch redis://cache.internal order/
  leasehold watch | grep expired
  leasehold watch --json | jq 'select(.event == \"evicted\")'

Cost: one listing, at once and then every second (see --every); it takes no
locks and writes nothing.

JSON: one object per line and change, with
  at (RFC 3339), event, name, namespace, label, mode (with take and of beside
  \"permits\"), fence, remark (who evicted it and why; of an ended one whose
  end is remembered in its place)
  event: held (at the start), granted, released, expired, evicted, ended (the
    engine does not know how), waiting, left (stopped waiting)
  What is not known is null.

Exit codes: 0 after q, Ctrl-C, or when the reader of a pipe has gone; 128+N
after signal N. The first look must succeed; later failures are told on
standard error, and it goes on trying.")]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) aim: Aim,

    /// The time between two looks; at least 100ms
    #[arg(long, value_name = "DURATION", value_parser = often_enough, default_value = "1s")]
    pub(crate) every: Duration,
}

fn often_enough(text: &str) -> Result<Duration, String> {
    let every = super::duration(text)?;
    let least = Duration::from_millis(100);
    if every < least {
        Err("looking so often would be a load; write 100ms or more".into())
    } else {
        Ok(every)
    }
}
