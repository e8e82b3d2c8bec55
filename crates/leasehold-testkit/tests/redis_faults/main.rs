//! What can go wrong with a Redis, each as it really happens, on the native
//! layout. The tests name the faults by these numbers:
//!
//! | | fault | file |
//! |---|---|---|
//! | R1 | a lease is evicted for want of memory | `loss` |
//! | R2 | the server refuses: memory, disk, replicas, a long script, loading | `refusals` |
//! | R3 | everything is flushed; an operator deletes a key | `loss` |
//! | R4 | scripts are forgotten | `storm` |
//! | R5 | a restart forgets | `loss`, `storm`, `restarts` |
//! | R6 | a successor never heard of a lease | `failover` |
//! | R7 | all clients go on after a failover | `failover` |
//! | R8 | the primary becomes a replica | `refusals` |
//! | R9 | requests go to the wrong server | `failover` |
//! | R10 | a slot moves | `slots` |
//! | R11 | keys of different slots | `names` |
//! | R12 | a cluster is down | `refusals` |
//! | R13 | a wake-up is lost | `pushes` |
//! | R14 | the connection for pushes dies | `pushes`, `storm` |
//! | R15 | an old primary still grants | `failover` |
//! | R16 | connections are killed or closed | `pushes`, `storm` |
//! | R17 | the server stands still | `loss` |
//! | R18 | names that mean something to a server | `names` |
//! | R19 | a grant is told late, of a place that has ended | `late` |
//! | R20 | spans that no server can count with | `spans` |
//! | R21 | somebody else has written a key of ours | `poison` |
//! | R22 | much is written under one lease | `bonds` |
//! | R23 | many namespaces, many watchers | `channels` |
//! | R24 | one primary of a cluster stands still | `parts` |
//! | R25 | very much is due at once | `lanes` |
//! | R26 | very much is listed | `lists` |
//! | R27 | another release stores in another way | `releases` |

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod acl;
mod bonds;
mod channels;
mod crowd;
mod failover;
mod lanes;
mod late;
mod lists;
mod loss;
mod names;
mod parts;
mod poison;
mod pushes;
mod refusals;
mod releases;
mod restarts;
mod slots;
mod spans;
mod storm;

use leasehold_testkit::contest::{BOUND, Checked, LONG, until};
use leasehold_testkit::proxy::FaultProxy;
use leasehold_testkit::server::{Server, ServerError, ask};

/// A field of `INFO`, as a number; 0 if it is not there.
fn info(server: &Server, section: &str, field: &str) -> Result<u64, ServerError> {
    let info = ask(server, &["INFO", section])?;
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    Ok(line.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
}

/// How many script calls the server has served.
fn calls(server: &Server) -> Checked<u64> {
    let stats = ask(server, &["INFO", "commandstats"])?;
    let line = stats.lines().find_map(|it| it.strip_prefix("cmdstat_evalsha:calls="));
    Ok(line.and_then(|it| it.split(',').next()).ok_or("no calls")?.parse()?)
}

/// A proxy in front of a server. It has a runtime of its own, which no other
/// may start.
fn proxy(server: &Server) -> Checked<FaultProxy> {
    let addr = server.addr();
    let started = std::thread::spawn(move || FaultProxy::to(addr)).join();
    Ok(started.map_err(|_| "the proxy did not start")??)
}
