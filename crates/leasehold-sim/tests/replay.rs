//! The same seed twice is the same history.
#![cfg(leasehold_sim)]

mod crude;

use std::time::Duration;

use self::crude::{Case, Trouble, run};

const fn case(url: &'static str, nodes: usize, ttl: u64, trouble: Trouble) -> Case {
    Case { url, nodes, ttl: Duration::from_secs(ttl), trouble, length: Duration::from_secs(15) }
}

fn replays(case: Case) {
    for seed in 0..20 {
        let (one, other) = (run(case, seed), run(case, seed));
        assert_eq!(one.trace, other.trace, "seed {seed} of {case:?}");
        assert!(one.grants > 10, "seed {seed} of {case:?}: {one:?}");
        assert_ne!(one.trace, run(case, seed + 1_000).trace, "another seed is another history");
    }
}

#[test]
fn memory_replays() {
    replays(case("memory:", 0, 3, Trouble::None));
}

#[test]
fn redis_replays() {
    replays(case("redis://n0", 1, 3, Trouble::Silence));
}

#[test]
fn redlock_replays() {
    replays(case("redlock://n0,n1,n2", 3, 10, Trouble::Pauses));
}
