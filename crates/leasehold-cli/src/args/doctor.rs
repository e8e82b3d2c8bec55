//! `doctor`: its options and its help.

use clap::Args;

/// Examine the engine: what it promises, what is wrong, how fast it is
///
/// Shows each promise with what it means, what the engine finds about its
/// server, and the result of a self-test: locks in the private namespace
/// leasehold.doctor, which are given back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold doctor
  leasehold doctor --engine sqlite:/var/lib/app/locks.db
  leasehold doctor --json | jq '.findings[] | select(.severity == \"danger\")'

JSON: an object with
  engine, endpoint, verdict (well, warning, danger)
  promises: promise, value, meaning
  findings: severity (note, warning, danger), message, advice
  self_test: null if it could not be done, or pairs (locks taken and given
    back), p50_us, p90_us, p99_us, max_us (microseconds per pair),
    engine_clock_ms and own_clock_ms (the same span on both clocks; null if
    the engine does not tell)

Exit codes: 0 if nothing is worse than a note, 1 for a warning, 3 for a danger
or a failed self-test; see also `leasehold --help`.")]
pub(crate) struct Doctor {}
