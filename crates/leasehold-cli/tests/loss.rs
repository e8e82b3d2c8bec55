//! What becomes of a command whose lease is taken away, or lasts too long.

use rustix::process::Signal;
use serde_json::Value;

use crate::util::{Outcome, Running, World, eventually, is_alive, send};

/// A command with a child of its own; neither ends by itself.
const TWO: &str = "sleep 1000 & echo $! >inner; echo $$ >outer; wait";
/// The same, deaf to SIGTERM.
const DEAF: &str = "trap '' TERM; sleep 1000 & echo $! >inner; echo $$ >outer; \
                    while :; do wait; done";

struct Group {
    inner: i32,
    outer: i32,
}

impl Group {
    fn of(world: &World) -> Self {
        Self { inner: world.pid_in("inner"), outer: world.pid_in("outer") }
    }

    fn is_gone(&self) -> bool {
        !is_alive(self.inner) && !is_alive(self.outer)
    }
}

fn fence(world: &World) -> String {
    world.show("x")["holders"][0]["fence"].to_string()
}

fn evict(world: &World) -> Value {
    let fence = fence(world);
    world
        .leasehold(&["evict", "x", "--expect-fence", &fence, "--reason", "a drill", "--json"])
        .json()
}

/// By the time `run` is back, its group has gone.
fn stopped(run: Running, group: &Group) -> Outcome {
    let outcome = run.wait().expect_code(76);
    assert!(group.is_gone(), "{outcome:?}");
    outcome
}

#[test]
fn an_evicted_command_is_stopped_with_its_group() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1h", "--grace", "1h"], TWO).start();
    let group = Group::of(&world);
    let report = evict(&world);
    assert_eq!(report["evicted"].as_array().unwrap().len(), 1);
    stopped(run, &group).says("a drill; stopping the command");
    let last = &world.show("x")["last"];
    assert_eq!(last["ended"], "evicted");
    assert!(last["remark"].as_str().unwrap().contains("a drill"), "{last}");
}

#[test]
fn a_deaf_command_is_killed_after_the_grace() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1h", "--grace", "100ms"], DEAF).start();
    let group = Group::of(&world);
    evict(&world);
    stopped(run, &group);
}

#[test]
fn whoever_is_deaf_in_the_group_is_killed_too() {
    let world = World::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ >inner; exec sleep 1000' & echo $$ >outer; wait";
    let run = world.run(&["x", "--ttl", "1h", "--grace", "100ms"], script).start();
    let group = Group::of(&world);
    evict(&world);
    stopped(run, &group).says("the command does not end; killing it");
}

#[test]
fn on_lost_kill_does_not_ask() {
    let world = World::new();
    let options = ["x", "--ttl", "1h", "--grace", "1h", "--on-lost", "kill"];
    let run = world.run(&options, DEAF).start();
    let group = Group::of(&world);
    evict(&world);
    stopped(run, &group);
}

#[test]
fn on_lost_ignore_warns_and_goes_on() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h", "--on-lost", "ignore"]);
    evict(&world);
    eventually("it warns", || holder.running.err().contains("it goes on regardless"));
    world.run(&["x", "--no-wait"], "true").outcome().expect_code(0);
    assert!(is_alive(world.pid_in("pid")));
    let outcome = holder.finish().expect_code(0);
    assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
}

#[test]
fn max_hold_stops_the_group() {
    let world = World::new();
    let run = world.run(&["x", "--max-hold", "300ms", "--grace", "1h"], TWO).start();
    let group = Group::of(&world);
    stopped(run, &group).says("\"x\" was held for as long as --max-hold allows");
    assert_eq!(world.show("x")["free"], true);
}

#[test]
fn max_hold_keeps_the_lock_until_a_deaf_group_has_gone() {
    let world = World::new();
    let run = world.run(&["x", "--max-hold", "100ms", "--grace", "500ms"], DEAF).start();
    let group = Group::of(&world);
    let second = world.run(&["x", "-q"], "ps -o stat= -p $(cat inner),$(cat outer); true").start();
    stopped(run, &group);
    let seen = second.wait().expect_code(0).out;
    let live = seen.lines().filter(|line| !line.trim_start().starts_with('Z')).count();
    assert_eq!(live, 0, "the second ran beside the first: {seen}");
}

/// The engine cannot be reached: its folder is held by someone else. What was
/// granted runs out, and the command must have ended before.
#[test]
fn a_lease_that_cannot_be_renewed_ends_its_command_in_time() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "3s", "--grace", "1h"], DEAF).start();
    let group = Group::of(&world);
    let blocker = world.block_engine();
    let outcome = stopped(run, &group).says("cannot be renewed and runs out in ");
    outcome.says("killing it, ").says(" before the lease ends");
    drop(blocker);
    world.run(&["x"], "true").outcome().expect_code(0);
}

/// Its guardian kills meanwhile, see guardian.rs; the code is that of a loss.
#[test]
fn a_leasehold_that_slept_for_too_long_says_so_on_waking() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "500ms", "--grace", "1h"], DEAF).start();
    let group = Group::of(&world);
    run.signal(Signal::STOP);
    eventually("the guardian kills", || group.is_gone());
    run.signal(Signal::CONT);
    stopped(run, &group).says("was not looked after in time; killed the command");
}

/// A command that ends as if nothing had happened has worked without its lock.
#[test]
fn a_lease_that_was_lost_before_the_end_is_told_by_the_code() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h"]);
    let command = world.pid_in("pid");
    // We hear of the eviction and of the end at once.
    holder.running.signal(Signal::STOP);
    evict(&world);
    world.touch("go");
    eventually("it has ended", || !is_alive(command));
    holder.running.signal(Signal::CONT);
    holder.wait().expect_code(76).says("had been lost before the command ended");
}

#[test]
fn a_stopped_group_is_stopped_for_good() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1h", "--grace", "1h"], TWO).start();
    let group = Group::of(&world);
    send(group.outer, Signal::STOP);
    send(group.inner, Signal::STOP);
    evict(&world);
    stopped(run, &group);
}
