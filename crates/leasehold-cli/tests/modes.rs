//! `run` with other kinds of locks, and with several names.

use crate::util::{Running, World, eventually};

fn try_it(world: &World, options: &[&str], code: i32) {
    let options = [options, &["--no-wait"]].concat();
    world.run(&options, "true").outcome().expect_code(code);
}

/// A run that holds until `go` appears; says so in a file of its own.
fn hold(world: &World, options: &[&str], mark: &str) -> Running {
    let script = format!(": >{mark}; while [ ! -e {mark}.go ]; do sleep 0.02; done");
    let run = world.run(options, &script).start();
    eventually(mark, || world.path(mark).exists());
    run
}

fn finish(world: &World, run: Running, mark: &str) {
    world.touch(&format!("{mark}.go"));
    run.wait().expect_code(0);
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let world = World::new();
    let one = hold(&world, &["x", "--shared"], "one");
    let two = hold(&world, &["x", "--shared"], "two");
    assert_eq!(world.show("x")["holders"].as_array().unwrap().len(), 2);
    assert_eq!(world.show("x")["holders"][0]["mode"], "read");
    try_it(&world, &["x", "--exclusive"], 75);
    finish(&world, one, "one");
    finish(&world, two, "two");
    let writer = hold(&world, &["x", "--exclusive"], "writer");
    assert_eq!(world.show("x")["holders"][0]["mode"], "write");
    try_it(&world, &["x", "--shared"], 75);
    try_it(&world, &["x", "--exclusive"], 75);
    finish(&world, writer, "writer");
}

#[test]
fn permits_are_shared_out() {
    let world = World::new();
    let two = hold(&world, &["x", "--permits", "2/5"], "two");
    let three = hold(&world, &["x", "--permits", "3/5"], "three");
    let held = &world.show("x")["holders"][0];
    assert_eq!(
        (&held["mode"], &held["take"], &held["of"]),
        (&"permits".into(), &2.into(), &5.into())
    );
    try_it(&world, &["x", "--permits", "1/5"], 75);
    finish(&world, two, "two");
    try_it(&world, &["x", "--permits", "2/5"], 0);
    finish(&world, three, "three");
}

#[test]
fn kinds_of_locks_do_not_mix() {
    let world = World::new();
    let reader = hold(&world, &["x", "--shared"], "reader");
    for other in [&["x"][..], &["x", "--permits", "1/2"]] {
        let refused = world.run(&[other, &["--no-wait"]].concat(), "true").outcome();
        refused.expect_code(2).says("does not mix with");
    }
    finish(&world, reader, "reader");
}

#[test]
fn several_names_are_held_together() {
    let world = World::new();
    let script = "echo \"$LEASEHOLD_NAME\"; echo \"$LEASEHOLD_FENCE\"; echo \"$LEASEHOLD_FENCES\"";
    let out = world.run(&["b b", "a", "b b"], script).stdout();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[..2], ["a", "b b"], "in order, once each");
    let fences: serde_json::Value = serde_json::from_str(lines[4]).unwrap();
    assert_eq!(fences["a"].to_string(), lines[2]);
    assert_eq!(fences["b b"].to_string(), lines[3]);
    assert_eq!(fences.as_object().unwrap().len(), 2);
}

#[test]
fn all_or_nothing() {
    let world = World::new();
    let holder = world.holder(&["b", "--label", "first"]);
    let busy = world.run(&["a", "b", "c", "--no-wait"], "echo never").outcome().expect_code(75);
    assert_eq!(busy.out, "");
    busy.says("\"b\" is busy, held by first (fence ");
    for name in ["a", "c"] {
        eventually("nothing is kept", || world.show(name)["free"] == true);
    }
    let both = world.run(&["c", "b", "a", "--label", "me"], "echo got").start();
    eventually("it waits", || both.err().contains("waiting for \"b\", held by first (fence "));
    holder.finish().expect_code(0);
    assert_eq!(both.wait().expect_code(0).out, "got\n");
}

#[test]
fn opposite_orders_do_not_deadlock() {
    let world = World::new();
    let start = |at: usize| {
        let names = if at.is_multiple_of(2) { ["a", "b", "-q"] } else { ["b", "a", "-q"] };
        world.run(&names, "echo x >>log; sleep 0.01").start()
    };
    let all: Vec<Running> = (0..8).map(start).collect();
    all.into_iter().for_each(|run| drop(run.wait().expect_code(0)));
    assert_eq!(world.read("log").lines().count(), 8);
}

#[test]
fn the_loss_of_one_name_stops_the_command() {
    let world = World::new();
    let run = world.run(&["a", "b", "c", "--ttl", "1h"], ": >held; exec sleep 1000").start();
    eventually("it runs", || world.path("held").exists());
    let evict = ["evict", "b", "--all", "--reason", "a drill"];
    world.leasehold(&evict).outcome().expect_code(0);
    run.wait().expect_code(76).says("the lease on \"b\" is lost").says("a drill; stopping");
    for name in ["a", "b", "c"] {
        assert_eq!(world.show(name)["free"], true, "{name}");
    }
}
