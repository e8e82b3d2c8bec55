//! Runs the crude generator and counts what it finds: `crude CASE FIRST COUNT`.
#![allow(missing_docs, clippy::print_stdout)]

#[cfg(leasehold_sim)]
#[path = "../tests/crude/mod.rs"]
mod crude;

#[cfg(leasehold_sim)]
fn main() {
    use std::time::Duration;

    use crude::{Case, Trouble, run};

    let words: Vec<String> = std::env::args().collect();
    let (redis, redlock) = ("redis://n0", "redlock://n0,n1,n2");
    let (url, nodes, ttl, trouble) = match words[1].as_str() {
        "c1" => (redlock, 3, 10, Trouble::Pauses),
        "c2" => (redis, 1, 1, Trouble::Silence),
        "c3" => (redlock, 3, 10, Trouble::Extensions),
        "memory" => ("memory:", 0, 3, Trouble::None),
        "redis" => (redis, 1, 3, Trouble::Pauses),
        _ => (redlock, 3, 10, Trouble::None),
    };
    let (ttl, length) = (Duration::from_secs(ttl), Duration::from_secs(20));
    let case = Case { url, nodes, ttl, trouble, length };
    if words.get(4).is_some_and(|word| word == "c2") {
        leasehold::mutant::revive(Some(leasehold::mutant::Mutant::StaleHandOver));
    }
    let (from, count): (u64, u64) = (words[2].parse().unwrap(), words[3].parse().unwrap());
    #[expect(clippy::disallowed_methods, reason = "how fast it really is")]
    let start = std::time::Instant::now();
    let (mut first, mut bad, mut grants) = (None, 0, 0);
    let mut bites = std::collections::BTreeMap::new();
    for seed in from..from + count {
        let outcome = run(case, seed);
        grants += outcome.grants;
        for (kind, count) in &outcome.bites {
            *bites.entry(*kind).or_insert(0) += count;
        }
        if !outcome.overlaps.is_empty() {
            bad += 1;
            if first.is_none() {
                first = Some(seed);
                println!("seed {seed}: {:?}", outcome.overlaps);
            }
        }
    }
    let spent = start.elapsed().as_secs_f64();
    let rate = count as f64 / spent;
    println!(
        "{}: {count} schedules in {spent:.1} s, {rate:.0}/s; {grants} grants; {bad} bad, first {first:?}; {bites:?}",
        words[1]
    );
}

#[cfg(not(leasehold_sim))]
fn main() {}
