//! Leasehold and clients of other languages on the same locks.
//!
//! `cargo xtask interop` builds the peers and runs this; by itself it fails if
//! they are not there. A trial is named `peer::kind::check::first_second`, after
//! who plays the two parts.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]
#![allow(clippy::print_stdout, reason = "shows how the sides shared the lock")]

mod exclusive;
mod fenced;
mod order;
mod permits;
mod read_write;
mod stage;

use std::process::ExitCode;
use std::sync::Arc;

use leasehold_testkit::peer::Tongue::{self, NodeRedlock, RedisPy, Redisson, Redsync, Rust};
use libtest_mimic::{Arguments, Trial};

use self::stage::{Check, Stage};

/// A check, and what it is called in the name of its trial.
type Named = (&'static str, Check);

/// What every lock must do that has one holder.
const EXCLUSIVE: &[Named] = &[
    ("busy_until_released", exclusive::busy_until_released),
    ("a_dead_holder_is_followed_after_its_ttl", exclusive::dead_holder),
    ("a_late_release_spares_the_successor", exclusive::late_release),
];
const COMPETE: Named = ("they_compete_and_lose_no_update", exclusive::compete);
const WOKEN: Named = ("a_release_wakes_the_waiter_not_its_ttl", exclusive::woken);
const EXTENDED: Named = ("an_extension_is_seen", exclusive::extended);

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Each trial has processes of its own that need the machine.
    args.test_threads = Some(1);
    let trials = [redisson(), strings(), quorums()].into_iter().flatten().collect();
    libtest_mimic::run(&args, trials).exit_code()
}

fn redisson() -> Vec<Trial> {
    let stage = Arc::new(Stage::new(1));
    let both = |kind, check| both_ways(&stage, Redisson, "redisson", kind, check);
    let mut trials = vec![
        one(&stage, "redisson", "lock", COMPETE, [Redisson, Redisson]),
        one(&stage, "redisson", "read", ("the_counter_bites", exclusive::bites), [Redisson; 2]),
    ];
    for kind in ["lock", "fair", "spin", "fenced", "write", "semaphore:1"] {
        trials.extend(EXCLUSIVE.iter().flat_map(|check| both(kind, *check)));
        trials.push(one(&stage, "redisson", kind, COMPETE, [Redisson, Rust]));
        if kind != "spin" {
            trials.extend(both(kind, WOKEN));
        }
    }
    trials.extend(both("fair", ("waiters_are_served_in_order", order::served_in_order)));
    trials.extend(both("fenced", ("tokens_grow_across_sides", fenced::tokens_grow)));
    trials.extend(both("read", ("readers_share_and_keep_writers_out", read_write::share)));
    trials.extend(both("read", ("the_last_reader_wakes_the_writer", read_write::last_reader)));
    trials.extend(both("semaphore:3", ("permits_are_counted", permits::counted)));
    trials
}

/// Clients that agree on one string key.
fn strings() -> Vec<Trial> {
    [Redsync, RedisPy, NodeRedlock].into_iter().flat_map(|it| plain(it, it.name(), 1)).collect()
}

/// Clients that agree on a majority of three servers.
fn quorums() -> Vec<Trial> {
    let peers = [(Redsync, "redsync::quorum"), (NodeRedlock, "node_redlock::quorum")];
    peers.into_iter().flat_map(|(peer, label)| plain(peer, label, 3)).collect()
}

fn plain(peer: Tongue, label: &'static str, servers: usize) -> Vec<Trial> {
    let stage = Arc::new(Stage::new(servers));
    let checks = EXCLUSIVE.iter().chain(&[EXTENDED]);
    let both = checks.flat_map(|check| both_ways(&stage, peer, label, "string", *check));
    let alone = one(&stage, label, "string", COMPETE, [peer, peer]);
    let mixed = one(&stage, label, "string", COMPETE, [peer, Rust]);
    both.chain([alone, mixed]).collect()
}

fn both_ways(
    stage: &Arc<Stage>,
    peer: Tongue,
    label: &str,
    kind: &'static str,
    check: Named,
) -> Vec<Trial> {
    let casts = [[peer, Rust], [Rust, peer]];
    casts.into_iter().map(|cast| one(stage, label, kind, check, cast)).collect()
}

fn one(
    stage: &Arc<Stage>,
    label: &str,
    kind: &'static str,
    (check, run): Named,
    cast: [Tongue; 2],
) -> Trial {
    let [first, second] = cast.map(Tongue::name);
    let stage = Arc::clone(stage);
    let name = format!("{label}::{kind}::{check}::{first}_{second}");
    Trial::test(name, move || stage.play(kind, cast, run))
}
