//! `barrier`, `latch` and `counter`.

use std::process::Command;

use serde_json::Value;

use crate::util::{Outcome, Running, World};

fn say(world: &World, words: &[&str]) -> Outcome {
    world.leasehold(words).outcome()
}

/// Waits, and then says `open` if the mark of that was there by then.
fn waiter(world: &World, words: &str) -> Running {
    let mut shell = Command::new("sh");
    let script = format!("\"$0\" {words} && cat mark");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_leasehold")]);
    world.command(shell).start()
}

fn mark(world: &World) {
    std::fs::write(world.path("mark"), "open").unwrap();
}

#[test]
fn a_barrier_holds_up_all_who_wait_until_it_is_opened() {
    let world = World::new();
    say(&world, &["barrier", "wait", "b"]).expect_code(0);
    assert_eq!(say(&world, &["barrier", "close", "b"]).expect_code(0).out, "b is closed\n");
    let again = say(&world, &["barrier", "close", "b"]).expect_code(0);
    assert_eq!(again.out, "b was closed already\n");
    say(&world, &["barrier", "wait", "b", "--wait", "50ms"])
        .expect_code(75)
        .says("not opened in time");

    let waiter = waiter(&world, "barrier wait b");
    mark(&world);
    let open: Value = world.leasehold(&["barrier", "open", "b", "--json"]).json();
    assert_eq!((&open["closed"], &open["changed"]), (&false.into(), &true.into()));
    assert_eq!(waiter.wait().expect_code(0).out, "open");
    assert_eq!(say(&world, &["barrier", "open", "b"]).expect_code(0).out, "b was open already\n");
    let waited = world.leasehold(&["barrier", "wait", "b", "--json"]).json();
    assert_eq!((&waited["name"], &waited["closed"]), (&"b".into(), &false.into()));
}

#[test]
fn a_latch_opens_when_all_have_counted() {
    let world = World::new();
    let latch = |words: &[&str]| say(&world, &[&["latch"], words].concat());
    assert_eq!(latch(&["set", "l", "3"]).expect_code(0).out, "3\n");
    latch(&["set", "l", "2"]).expect_code(1).says("set already, and 3 are missing");
    let waiter = waiter(&world, "latch wait l");
    assert_eq!(latch(&["arrive", "l", "a"]).expect_code(0).out, "2\n");
    assert_eq!(latch(&["arrive", "l", "a"]).expect_code(0).out, "2\n", "counted once");
    assert_eq!(latch(&["count-down", "l"]).expect_code(0).out, "1\n");
    latch(&["wait", "l", "--wait", "50ms"]).expect_code(75).says("ask for its count");
    mark(&world);
    assert_eq!(world.leasehold(&["latch", "show", "l", "--json"]).json()["left"], 1);
    assert_eq!(latch(&["count-down", "l"]).expect_code(0).out, "0\n");
    assert_eq!(waiter.wait().expect_code(0).out, "open");
    assert_eq!(latch(&["count-down", "l"]).expect_code(0).out, "0\n", "it stays open");
    assert_eq!(latch(&["set", "l", "1"]).expect_code(0).out, "1\n", "it is set anew");
}

#[test]
fn a_counter_adds_what_may_be_below_zero() {
    let world = World::new();
    let counter = |words: &[&str]| say(&world, &[&["counter"], words].concat());
    assert_eq!(counter(&["get", "stock"]).expect_code(0).out, "0\n");
    assert_eq!(counter(&["add", "stock", "5"]).expect_code(0).out, "5\n");
    assert_eq!(counter(&["add", "stock", "-7"]).expect_code(0).out, "-2\n");
    assert_eq!(counter(&["add", "stock", "--", "-3"]).expect_code(0).out, "-5\n");
    let json = world.leasehold(&["counter", "get", "stock", "--json"]).json();
    assert_eq!((&json["name"], &json["value"]), (&"stock".into(), &(-5).into()));
    counter(&["add", "stock", "-9223372036854775807"]).expect_code(2).says("nothing was added");
    counter(&["add", "stock", "much"]).expect_code(2).says("'much'");
    assert_eq!(counter(&["get", "stock"]).out, "-5\n");
}

#[test]
fn what_is_there_already_for_something_else_is_not_touched() {
    let world = World::new();
    say(&world, &["latch", "set", "n", "2"]).expect_code(0);
    say(&world, &["counter", "add", "n", "1"]).expect_code(2);
    say(&world, &["counter", "get", "n"]).expect_code(70).says("no number");
    assert_eq!(say(&world, &["latch", "show", "n"]).expect_code(0).out, "2\n");
}

#[test]
fn a_word_that_is_none_of_theirs_is_answered_with_those_that_are() {
    let world = World::new();
    say(&world, &["barrier", "shut", "b"]).expect_code(2).says("one of wait, open or close");
    say(&world, &["latch"]).expect_code(2).says("set, count-down, arrive, wait, show");
    say(&world, &["latch", "wait", "redis://host"]).expect_code(2).says("URL of an engine");
}
