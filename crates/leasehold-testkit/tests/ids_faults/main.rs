//! What can go wrong with ids, each as it really happens:
//!
//! | fault | file |
//! |---|---|
//! | fifty processes start at once; some are killed, some stopped, clocks step | `processes` |
//! | a process is killed in the middle of a fill | `processes` |
//! | the engine is away | `away` |
//! | generators come and go by the thousand, and their processes are killed | `churn` |
//! | the same for generators without an engine, which repeat ids | `peers` |
//!
//! Sizes fit a small machine. `LEASEHOLD_IDS_LONG=1` runs the long form: 200,000
//! ids for each of the fifty, an engine that is away for a minute, and 5,000
//! generators that come and go under 200 kills, on each engine.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod away;
mod churn;
mod maker;
mod peers;
mod processes;

use std::collections::HashSet;

/// Whether the long form was asked for.
fn is_long() -> bool {
    std::env::var_os("LEASEHOLD_IDS_LONG").is_some()
}

/// For whoever wants to see the numbers: `--nocapture`.
fn say(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// How many ids come more than once.
fn repeated(ids: &[u64]) -> usize {
    let different: HashSet<u64> = ids.iter().copied().collect();
    ids.len() - different.len()
}
