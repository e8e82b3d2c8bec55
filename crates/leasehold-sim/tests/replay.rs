//! The same seed twice is the same history.
#![cfg(leasehold_sim)]

mod crude;

use std::time::Duration;

use self::crude::{Case, Trouble, run};

const MEMORY: Case =
    Case { url: "memory:", nodes: 0, ttl: Duration::from_secs(3), trouble: Trouble::None };
const REDIS: Case =
    Case { url: "redis://n0", nodes: 1, ttl: Duration::from_secs(3), trouble: Trouble::Silence };
const REDLOCK: Case = Case {
    url: "redlock://n0,n1,n2",
    nodes: 3,
    ttl: Duration::from_secs(10),
    trouble: Trouble::Pauses,
};

fn replays(case: Case) {
    for seed in 0..20 {
        let (one, other) = (run(case, seed), run(case, seed));
        assert_eq!(one.trace, other.trace, "seed {seed} of {case:?}");
        assert!(one.grants > 10, "seed {seed} of {case:?}: {one:?}");
        let different = run(case, seed + 1_000);
        assert_ne!(one.trace, different.trace, "another seed is another history");
    }
}

#[test]
fn memory_replays() {
    replays(MEMORY);
}

#[test]
fn redis_replays() {
    replays(REDIS);
}

#[test]
fn redlock_replays() {
    replays(REDLOCK);
}
