//! The guardian: nothing of a command goes on when its `leasehold` is dead, and
//! on this host nobody has the lock before that.

use rustix::process::{Pid, Signal, kill_process};

use crate::util::{Running, World, eventually, guardian_of, is_alive, send};

/// A command, a child of it, one in a session of its own, and one that has left
/// its parents as well: a daemon. All are deaf to what can be ignored.
const FAMILY: &str = "\
    trap '' TERM HUP INT; \
    sleep 1000 & echo $! >child; \
    setsid sh -c 'echo $$ >session; exec sleep 1000' & \
    (setsid sh -c 'echo $$ >daemon; exec sleep 1000' &) ; \
    echo $$ >command; while :; do wait; done";

const MEMBERS: [&str; 4] = ["command", "child", "session", "daemon"];

/// Writes down who of the family is still there.
const LOOK: &str = "for it in command child session daemon; do \
    state=$(ps -o stat= -p $(cat $it)); case $state in ''|Z*) ;; *) echo $it lives;; esac; done; \
    echo in";

fn family(world: &World) -> Vec<i32> {
    MEMBERS.iter().map(|name| world.pid_in(name)).collect()
}

fn are_gone(family: &[i32]) -> bool {
    !family.iter().any(|pid| is_alive(*pid))
}

/// `run`, `once` or `token redeem`, on `sh -c SCRIPT`.
fn started(world: &World, how: &str, script: &str) -> Running {
    let secret = "1:0123456789abcdef0123456789abcdef";
    let with = |args: &[&str]| {
        let args = [args, &["--", "sh", "-c", script]].concat();
        world.leasehold(&args).env("LEASEHOLD_TOKEN_SECRETS", secret).start()
    };
    match how {
        "run" => with(&["run", "x", "--ttl", "1h", "-q"]),
        "once" => with(&["once", "x", "--lease", "1h"]),
        _ => with(&["token", "redeem", &token(world, secret), "--lease", "1h"]),
    }
}

/// The same one each time.
fn token(world: &World, secret: &str) -> String {
    if world.read("token").is_empty() {
        let issue = world.leasehold(&["token", "issue"]).env("LEASEHOLD_TOKEN_SECRETS", secret);
        std::fs::write(world.path("token"), issue.stdout().trim()).unwrap();
    }
    world.read("token")
}

/// With a lease of an hour the next one gets in because the holder is dead, and
/// for no other reason.
fn nobody_meets_the_family_of_a_killed(how: &str) {
    let world = World::new();
    // One command line for both, as `once` wants it.
    let script = format!("if [ -e command ]; then {LOOK}; else {FAMILY}; fi");
    let first = started(&world, how, &script);
    let family = family(&world);
    assert!(family.iter().all(|pid| is_alive(*pid)));
    first.signal(Signal::KILL);
    let next = started(&world, how, &script).wait().expect_code(0);
    assert_eq!(next.out, "in\n", "{how}");
    assert!(are_gone(&family));
}

#[test]
fn a_killed_run_takes_its_whole_family_along_before_the_next_is_in() {
    nobody_meets_the_family_of_a_killed("run");
}

#[test]
fn a_killed_once_takes_its_whole_family_along_before_the_next_is_in() {
    nobody_meets_the_family_of_a_killed("once");
}

#[test]
fn a_killed_redeemer_takes_its_whole_family_along_before_the_next_is_in() {
    nobody_meets_the_family_of_a_killed("token redeem");
}

/// Nobody is in before the family has gone: the lifeline that the guardian has
/// keeps the name closed. The kernel may continue it when its parent has died.
#[test]
fn a_guardian_that_was_stopped_is_waited_for() {
    let world = World::new();
    let run = started(&world, "run", FAMILY);
    let family = family(&world);
    let guardian = guardian_of(family[0]);
    send(guardian, Signal::STOP);
    run.signal(Signal::KILL);
    drop(run);
    let early = world.run(&["x", "--no-wait"], LOOK).outcome();
    assert!(early.code == Some(75) || early.out == "in\n", "{early:?}");
    let _ = kill_process(Pid::from_raw(guardian).unwrap(), Signal::CONT);
    let next = world.run(&["x", "-q"], LOOK).outcome().expect_code(0);
    assert_eq!(next.out, "in\n");
    assert!(are_gone(&family));
}

/// The lease is still ours, but nobody would end the command with us.
#[test]
fn a_command_whose_guardian_is_killed_is_ended() {
    let world = World::new();
    let run = started(&world, "run", FAMILY);
    let family = family(&world);
    send(guardian_of(family[0]), Signal::KILL);
    run.wait().expect_code(70).says("the guardian of the command has died");
    assert!(are_gone(&family));
    assert_eq!(world.show("x")["last"]["ended"], "released");
}

/// What is not told in time is taken for lost: the guardian has the deadline.
#[test]
fn a_stopped_leasehold_loses_its_command_before_its_lease() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1s", "--grace", "1h"], FAMILY).start();
    let family = family(&world);
    run.signal(Signal::STOP);
    // Its process lives, so only the ttl frees the name.
    let next = world.run(&["x", "-q"], LOOK).outcome().expect_code(0);
    assert_eq!(next.out, "in\n");
    run.signal(Signal::CONT);
    run.wait().expect_code(76);
    assert!(are_gone(&family));
}

fn evict(world: &World, name: &str) {
    let evict = ["evict", name, "--all", "--reason", "a drill"];
    world.leasehold(&evict).outcome().expect_code(0);
}

/// Also those whom no signal to the group can reach.
#[test]
fn an_evicted_run_ends_its_whole_family() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1h", "--grace", "100ms"], FAMILY).start();
    let family = family(&world);
    evict(&world, "x");
    let outcome = run.wait().expect_code(76);
    assert!(are_gone(&family), "{outcome:?}");
}

/// Its name on the engine is not its key.
fn name_of_once(world: &World) -> String {
    let listed = world.leasehold(&["ls", "--json"]).json();
    listed[0]["name"].as_str().unwrap().to_owned()
}

#[test]
fn an_evicted_once_ends_its_whole_family() {
    let world = World::new();
    let once = started(&world, "once", FAMILY);
    let family = family(&world);
    evict(&world, &name_of_once(&world));
    let outcome = once.wait().expect_code(76);
    assert!(are_gone(&family), "{outcome:?}");
}

/// The engine cannot be reached, and the lease runs out.
#[test]
fn a_once_that_cannot_be_renewed_ends_its_family_in_time() {
    let world = World::new();
    let script = format!("if [ -e command ]; then {LOOK}; else {FAMILY}; fi");
    let args = ["once", "x", "--lease", "3s", "--", "sh", "-c", &script];
    let once = world.leasehold(&args).start();
    let family = family(&world);
    let blocker = world.block_engine();
    let outcome = once.wait().expect_code(76);
    assert!(are_gone(&family), "{outcome:?}");
    drop(blocker);
    assert_eq!(world.leasehold(&args).outcome().expect_code(0).out, "in\n");
}

#[test]
fn what_a_once_leaves_behind_does_not_keep_it() {
    let world = World::new();
    let script = "sleep 1000 & echo $! >left; echo done";
    let once = || world.leasehold(&["once", "x", "--", "sh", "-c", script]);
    assert_eq!(once().stdout(), "done\n");
    let left = world.pid_in("left");
    assert!(is_alive(left), "it may go on: the command has ended by itself");
    assert_eq!(once().stdout(), "done\n");
    send(left, Signal::KILL);
}

/// What a signal has ended is not an outcome to be told for ever.
#[test]
fn an_interrupted_once_is_run_again_or_not() {
    for (mode, code) in [(&[][..], 0), (&["--at-most-once"], 78)] {
        let world = World::new();
        let script = "[ -e command ] && exit; echo $$ >command; exec sleep 1000";
        let args = [&["once", "x"], mode, &["--", "sh", "-c", script]].concat();
        let once = world.leasehold(&args).start();
        let command = world.pid_in("command");
        once.signal(Signal::INT);
        once.wait().expect_code(130);
        assert!(!is_alive(command));
        world.leasehold(&args).outcome().expect_code(code);
    }
}

#[test]
fn a_command_that_goes_on_regardless_outlives_both() {
    let world = World::new();
    let run = world.run(&["x", "--ttl", "1h", "--on-lost", "ignore"], FAMILY).start();
    let family = family(&world);
    let guardian = guardian_of(family[0]);
    run.signal(Signal::KILL);
    eventually("the guardian goes", || !is_alive(guardian));
    assert!(family.iter().all(|pid| is_alive(*pid)));
}
