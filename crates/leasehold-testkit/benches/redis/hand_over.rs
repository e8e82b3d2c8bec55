//! From the release in one process to the grant in another, and what it costs
//! the server that somebody waits.

use std::time::Duration;

use leasehold_testkit::peer::Peer;

use crate::Outcome;
use crate::contest::Contestant;
use crate::server::Target;

const ROUNDS: usize = 4;
const PASSES: usize = 10;
/// A lease that nobody waits out, and that nobody renews.
const LEASE: Duration = Duration::from_secs(60);
/// Long enough for the other side to be waiting.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a waiter is watched.
const WATCHED: Duration = Duration::from_secs(5);
/// These come back at once from a name that is taken.
const NO_WAITERS: [&str; 3] = ["bare", "careful", "rslock"];

pub(crate) fn report(target: &Target, contestants: &mut [Contestant]) -> Outcome<()> {
    let waits = |it: &&mut Contestant| !NO_WAITERS.contains(&it.kind);
    let mut contestants: Vec<_> = contestants.iter_mut().filter(waits).collect();
    let mut samples: Vec<Vec<Duration>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            samples.extend(passes(contestant).unwrap_or_default());
        }
    }
    println!("\n| client | hand-over: p50 | p90 | commands of one waiter in 5 s | which |");
    println!("|---|---|---|---|---|");
    for (contestant, mut samples) in contestants.into_iter().zip(samples) {
        samples.sort_unstable();
        let at = |tenths: usize| samples.get(samples.len() * tenths / 10).copied();
        let (p50, p90) = (at(5).unwrap_or_default(), at(9).unwrap_or_default());
        let (total, which) = waiter(target, contestant).unwrap_or_default();
        println!("| {} | {p50:.0?} | {p90:.0?} | {total} | {which} |", contestant.label);
    }
    Ok(())
}

/// The lock goes to and fro between two processes.
fn passes(contestant: &mut Contestant) -> Outcome<Vec<Duration>> {
    let kind = contestant.kind;
    let [mut holder, mut waiter] = contestant.peers.each_mut();
    // A name for each kind: they keep different things under it.
    let name = format!("passed/{kind}");
    holder.lock(kind, &name, LEASE, LEASE)?.ok_or("the name was free")?;
    let mut samples = Vec::new();
    for _ in 0..PASSES {
        samples.push(pass(kind, &name, holder, waiter)?);
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.unlock(kind, &name)?;
    Ok(samples)
}

fn pass(kind: &str, name: &str, holder: &mut Peer, waiter: &mut Peer) -> Outcome<Duration> {
    waiter.ask(kind, name, LEASE, LEASE)?;
    std::thread::sleep(SETTLE);
    let released = holder.unlock(kind, name)?.ok_or("it was held")?;
    let granted = waiter.granted()?.ok_or("it was released")?;
    Ok(granted.at.saturating_sub(released))
}

/// What a waiter sends while nothing happens.
fn waiter(target: &Target, contestant: &mut Contestant) -> Outcome<(u64, String)> {
    let kind = contestant.kind;
    let [holder, waiter] = contestant.peers.each_mut();
    let name = format!("watched/{kind}");
    holder.lock(kind, &name, Duration::ZERO, LEASE)?.ok_or("the name was free")?;
    target.reset_counts()?;
    waiter.lock(kind, &name, WATCHED, LEASE)?;
    let commands = target.commands()?;
    holder.unlock(kind, &name)?;
    Ok((commands.total(), commands.per(1.0).to_string()))
}
