//! `bench`: its options and its help.

use std::time::Duration;

use clap::Args;

/// Measure the engine, and compare it with others
///
/// Four kinds of work, each for a second: lock+release (one task alone),
/// throughput (many tasks, each on names of its own), hand-over (from one
/// task's release to the grant of one that waits) and, where an engine reaches
/// over processes, hand-over between two processes. It works in the private
/// namespace leasehold.bench and gives everything back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold bench
  leasehold bench --tasks 64 --seconds 5
  leasehold bench --compare memory: sqlite:/var/lib/app/locks.db
  leasehold bench --count 1000 --json | jq '.engines[0].results[0].p99_us'

The ratio compares with the first engine: of the median times, so that above 1
is slower; for throughput of the rates, so that above 1 is faster.

JSON: an object with
  tasks
  engines: engine, endpoint,
    results: work (lock_release, throughput, hand_over, hand_over_processes),
      pairs (how often it was done), seconds, per_second, p50_us, p90_us,
      p99_us, p999_us, max_us (microseconds), ratio")]
pub(crate) struct Bench {
    /// Engines to compare with
    ///
    /// Other users see the command line: a URL with a password belongs into
    /// LEASEHOLD_ENGINE.
    #[arg(long, value_name = "URL", num_args = 1..)]
    pub(crate) compare: Vec<String>,

    /// How many tasks work side by side for the throughput
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: u32,

    /// How long each kind of work is measured
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    #[arg(conflicts_with = "count")]
    pub(crate) seconds: f64,

    /// Do each kind of work this often instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

impl Bench {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let wrong = "write a number of seconds from 0.01 to 3600";
    let seconds = text.parse().map_err(|_| wrong)?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err(wrong.into()) }
}
