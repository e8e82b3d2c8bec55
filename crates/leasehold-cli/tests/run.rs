//! `run`: the lock, the environment, the exit codes.

use std::fs;

use crate::util::{Running, World, eventually};

#[test]
fn runs_a_command_with_its_arguments_and_input() {
    let world = World::new();
    let echo = world.leasehold(&["run", "x", "--", "echo", "hello", "--wait", "two words"]);
    assert_eq!(echo.stdout(), "hello --wait two words\n");
    assert_eq!(world.leasehold(&["run", "x", "--", "cat"]).input("typed").stdout(), "typed");
}

#[test]
fn exit_codes_are_passed_on() {
    let world = World::new();
    world.run(&["x"], "exit 7").outcome().expect_code(7);
    world.run(&["x"], "exit 255").outcome().expect_code(255);
    world.run(&["x"], "kill -9 $$").outcome().expect_code(128 + 9);
    world.run(&["x"], "kill -TERM $$").outcome().expect_code(128 + 15);
}

#[test]
fn commands_that_cannot_be_run_are_told_apart() {
    let world = World::new();
    let missing = world.leasehold(&["run", "x", "--", "no-such-command"]).outcome();
    missing.expect_code(127).says("\"no-such-command\": not found; check its name and PATH");
    fs::write(world.path("plain"), "").unwrap();
    let plain = world.leasehold(&["run", "x", "--", "./plain"]).outcome();
    plain.expect_code(126).says("cannot run \"./plain\": Permission denied");
    assert_eq!(world.show("x")["free"], true, "the lock was given back");
}

#[test]
fn a_busy_lock_is_exit_code_75_or_what_you_like() {
    let world = World::new();
    let holder = world.holder(&["x", "--label", "first"]);
    let fence = &world.show("x")["holders"][0]["fence"];
    let busy = world.run(&["x", "--no-wait"], "echo never").outcome().expect_code(75);
    assert_eq!(busy.out, "");
    busy.says(&format!("\"x\" is busy, held by first (fence {fence}) for "));
    world.run(&["x", "--no-wait", "--busy-code", "0"], "echo never").outcome().expect_code(0);
    let late = world.run(&["x", "--wait", "50ms"], "echo never").outcome().expect_code(75);
    late.says("\"x\" is still busy after 50ms, held by first (fence");
    assert_eq!(world.show("x")["waiters"], serde_json::json!([]), "nothing stays in the queue");
    holder.finish().expect_code(0);
}

#[test]
fn the_second_waits_until_the_first_ends() {
    let world = World::new();
    let first = world.holder(&["x", "--label", "first"]);
    let mut second = world.run(&["x", "--label", "second"], "echo second").start();
    eventually("it says that it waits", || second.err().contains("waiting for \"x\""));
    assert!(second.err().starts_with("leasehold: waiting for \"x\", held by first (fence "));
    assert_eq!(world.show("x")["waiters"][0]["label"], "second");
    assert!(!second.has_ended());
    first.finish().expect_code(0);
    assert_eq!(second.wait().expect_code(0).out, "second\n");
}

#[test]
fn quiet_waits_without_a_word() {
    let world = World::new();
    let first = world.holder(&["x"]);
    let second = world.run(&["x", "-q", "--wait", "2s"], "true").outcome();
    second.expect_code(75).says("still busy after 2s");
    first.finish().expect_code(0);
}

#[test]
fn the_command_knows_its_lease() {
    let world = World::new();
    let script = "echo $LEASEHOLD_NAME,$LEASEHOLD_FENCE,$LEASEHOLD_DEADLINE,$LEASEHOLD_LABEL";
    let run = || world.run(&["order/42", "--ttl", "1h", "--label", "me"], script).stdout();
    let (first, second) = (run(), run());
    let fields: Vec<_> = first.trim().split(',').collect();
    assert_eq!((fields[0], fields[3]), ("order/42", "me"));
    let fence = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(fence(&second) > fence(&first), "fences grow");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let left = fields[2].parse::<u64>().unwrap().saturating_sub(now);
    assert!((3000..=3601).contains(&left), "{left} s to the deadline");
}

#[test]
fn a_holder_is_named_after_user_host_process_and_command() {
    let world = World::new();
    let holder = world.holder(&["x", "--meta", "ticket 4711"]);
    let held = &world.show("x")["holders"][0];
    let label = held["label"].as_str().unwrap();
    assert!(label.contains('@') && label.contains(':') && label.ends_with(" sh"), "{label}");
    assert_eq!(held["meta"], "ticket 4711");
    holder.finish().expect_code(0);
}

#[test]
fn one_at_a_time() {
    let world = World::new();
    fs::write(world.path("count"), "0").unwrap();
    let add = "n=$(cat count); sleep 0.01; echo $((n + 1)) >count";
    let start = |fair: bool| {
        let options: &[&str] = if fair { &["x", "-q", "--fair"] } else { &["x", "-q"] };
        world.run(options, add).start()
    };
    let all: Vec<Running> = (0..12).map(|at| start(at % 2 == 0)).collect();
    all.into_iter().for_each(|run| drop(run.wait().expect_code(0)));
    assert_eq!(world.read("count"), "12\n");
}

#[test]
fn other_names_and_namespaces_do_not_wait() {
    let world = World::new();
    let holder = world.holder(&["x"]);
    world.run(&["y", "--no-wait"], "true").outcome().expect_code(0);
    world.run(&["x", "--namespace", "other", "--no-wait"], "true").outcome().expect_code(0);
    holder.finish().expect_code(0);
}

#[test]
fn hold_at_least_keeps_the_name_closed_after_the_end() {
    let world = World::new();
    world.run(&["x", "--hold-at-least", "1h"], "true").outcome().expect_code(0);
    let busy = world.run(&["x", "--no-wait"], "true").outcome().expect_code(75);
    busy.says("\"x\" is busy, kept closed for another 59m");
    let shown = world.show("x");
    assert!(shown["closed_seconds"].as_f64().unwrap() > 3000.0, "{shown}");
    assert_eq!(shown["free"], false);
}

#[test]
fn what_the_command_leaves_behind_does_not_keep_the_lock() {
    let world = World::new();
    world.run(&["x"], "sleep 100 & echo $! >left").outcome().expect_code(0);
    assert_eq!(world.show("x")["free"], true);
    crate::util::send(world.pid_in("left"), rustix::process::Signal::KILL);
}
