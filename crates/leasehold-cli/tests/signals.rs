//! Signals to `run`: passed on, or the end of the wait; and the one that
//! cannot be caught.

use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use crate::util::{World, eventually, is_alive, send, state_of};

/// Two processes in the group; each writes down what it hears.
const LISTEN: &str = "\
    listen() { trap \"echo $1 HUP >>heard\" HUP; trap \"echo $1 USR1 >>heard\" USR1; \
      trap \"echo $1 TERM >>heard; exit 9\" TERM; : >ready-$1; \
      while :; do sleep 0.02; done; }; \
    listen inner & listen outer";

fn listeners(world: &World) -> impl FnMut() -> bool {
    let ready = [world.path("ready-inner"), world.path("ready-outer")];
    move || ready.iter().all(|path| path.exists())
}

#[test]
fn signals_reach_the_whole_group() {
    let world = World::new();
    let run = world.run(&["x"], LISTEN).start();
    eventually("both listen", listeners(&world));
    for (signal, word) in [(Signal::HUP, "HUP"), (Signal::USR1, "USR1"), (Signal::TERM, "TERM")] {
        run.signal(signal);
        let both = [format!("inner {word}\n"), format!("outer {word}\n")];
        eventually(word, || both.iter().all(|line| world.read("heard").contains(line)));
    }
    run.wait().expect_code(9);
    assert_eq!(world.show("x")["last"]["ended"], "released");
}

#[test]
fn a_signal_that_ends_the_command_is_its_exit_code() {
    let world = World::new();
    let holder = world.holder(&["x"]);
    holder.running.signal(Signal::INT);
    holder.wait().expect_code(128 + 2);
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let world = World::new();
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_leasehold")]);
    nohup.args(["run", "x", "--", "sh", "-c", "echo $$ >pid; kill -HUP $$; sleep 0.1; exit 5"]);
    let run = world.command(nohup).start();
    world.pid_in("pid");
    run.signal(Signal::HUP);
    run.wait().expect_code(5);
}

/// One process that never forks: a parent is not stopped as long as the child
/// that it is just starting is.
#[test]
fn a_stopped_command_goes_on_when_it_is_continued() {
    let world = World::new();
    let run = world.run(&["x"], "echo $$ >pid; exec sleep 1000").start();
    let child = world.pid_in("pid");
    run.signal(Signal::TSTP);
    eventually("it is stopped", || state_of(child) == Some('T'));
    assert_eq!(world.show("x")["free"], false, "and keeps its lock");
    run.signal(Signal::CONT);
    eventually("it goes on", || state_of(child) == Some('S'));
    run.signal(Signal::TERM);
    run.wait().expect_code(143);
}

#[test]
fn an_interrupted_wait_leaves_nothing_in_the_queue() {
    let world = World::new();
    let holder = world.holder(&["x"]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let waiter = world.run(&["x", "--ttl", "1h"], "true").start();
        eventually("it waits", || world.show("x")["waiters"][0].is_object());
        waiter.signal(Signal::USR1);
        waiter.signal(signal);
        waiter.wait().expect_code(code);
        assert_eq!(world.show("x")["waiters"], json!([]));
    }
    holder.finish().expect_code(0);
}

/// With a ttl of an hour the second would wait for an hour; the test is bounded
/// to a minute.
#[test]
fn a_killed_holder_lets_the_second_in_and_takes_its_command_along() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h"]);
    let child = world.pid_in("pid");
    let second = world.run(&["x", "--ttl", "1h"], "echo in").start();
    eventually("it waits", || world.show("x")["waiters"][0].is_object());
    assert!(is_alive(child));
    holder.running.signal(Signal::KILL);
    assert_eq!(second.wait().expect_code(0).out, "in\n");
    eventually("the command ends with its leasehold", || !is_alive(child));
}

#[test]
fn a_killed_waiter_does_not_block_the_queue() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h"]);
    let dead = world.run(&["x", "--ttl", "1h"], "true").start();
    eventually("one waits", || world.show("x")["waiters"][0].is_object());
    let third = world.run(&["x", "--ttl", "1h"], "echo in").start();
    eventually("two wait", || world.show("x")["waiters"][1].is_object());
    dead.signal(Signal::KILL);
    holder.finish().expect_code(0);
    assert_eq!(third.wait().expect_code(0).out, "in\n");
}

#[test]
fn a_command_that_may_outlive_its_lease_also_outlives_leasehold() {
    let world = World::new();
    let holder = world.holder(&["x", "--ttl", "1h", "--on-lost", "ignore"]);
    let child = world.pid_in("pid");
    holder.running.signal(Signal::KILL);
    drop(holder);
    world.run(&["x"], "true").outcome().expect_code(0);
    assert!(is_alive(child));
    send(child, Signal::KILL);
}
