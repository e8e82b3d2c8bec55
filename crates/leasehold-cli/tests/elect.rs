//! `elect` and `observe`: who leads, and who is told.

use rustix::process::Signal;
use serde_json::Value;

use crate::util::{Outcome, Running, World, eventually, is_alive};

/// A command with a child of its own, deaf to SIGTERM; neither ends by itself.
const TREE: &str = "sleep 1000 & echo $! >inner; trap '' TERM; echo $$ >outer; \
                    while :; do wait; done";

fn elect(world: &World, options: &[&str], script: &str) -> Running {
    let command = ["--", "sh", "-c", script];
    world.leasehold(&[&["elect", "x"], options, &command].concat()).start()
}

/// The first who leads, with a lease that does not end by itself.
fn leader(world: &World) -> Running {
    let script = "echo $LEASEHOLD_FENCE >first; exec sleep 1000";
    let leader = elect(world, &["--ttl", "1h", "--value", "one"], script);
    eventually("it leads", || world.read("first").ends_with('\n'));
    leader
}

fn observe(world: &World) -> Running {
    world.leasehold(&["observe", "x", "--json"]).start()
}

fn sightings(observer: &Running) -> Vec<Value> {
    let out = observer.out();
    let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn saw(observer: &Running, value: &str) -> Value {
    let find = || sightings(observer).into_iter().find(|it| it["value"] == value);
    eventually(value, || find().is_some());
    find().unwrap()
}

fn once(world: &World) -> Outcome {
    world.leasehold(&["observe", "x", "--once", "--json"]).outcome()
}

/// With a ttl of an hour: nobody has waited for that.
#[test]
fn a_leader_that_was_killed_is_followed_by_the_next_and_observers_see_both() {
    let world = World::new();
    let observer = observe(&world);
    eventually("nobody", || sightings(&observer).first().is_some_and(|it| it["event"] == "nobody"));
    let first = leader(&world);
    let one = saw(&observer, "one");
    let second = elect(&world, &["--value", "two"], "echo $LEASEHOLD_FENCE >second; sleep 1000");
    eventually("it waits", || second.err().contains("waiting for \"x\", held by "));

    first.signal(Signal::KILL);
    let two = saw(&observer, "two");
    assert!(two["fence"].as_u64() > one["fence"].as_u64(), "{one} {two}");
    let fence = |it: &Value| it["fence"].to_string();
    eventually("it runs", || world.read("second").ends_with('\n'));
    assert_eq!(
        (world.read("first").trim(), world.read("second").trim()),
        (&*fence(&one), &*fence(&two))
    );
    assert!(two["label"].as_str().unwrap().ends_with(" sh"), "{two}");
    observer.signal(Signal::INT);
    observer.wait().expect_code(0);
}

#[test]
fn the_whole_tree_of_a_leader_that_was_evicted_is_stopped() {
    let world = World::new();
    let options = ["--ttl", "1h", "--grace", "100ms"];
    let leader = elect(&world, &options, TREE);
    let tree = [world.pid_in("inner"), world.pid_in("outer")];
    assert!(tree.iter().all(|pid| is_alive(*pid)));
    let evict = ["evict", "x", "--all", "--reason", "a drill"];
    world.leasehold(&evict).outcome().expect_code(0);
    let outcome = leader.wait().expect_code(76);
    assert!(!tree.iter().any(|pid| is_alive(*pid)), "{outcome:?}");
    outcome.says("a drill; stopping the command");
}

#[test]
fn a_leader_resigns_with_its_command_and_passes_its_code_on() {
    let world = World::new();
    elect(&world, &["--no-wait"], "exit 7").wait().expect_code(7);
    let nobody = once(&world).expect_code(1);
    let nobody: Value = serde_json::from_str(&nobody.out).unwrap();
    assert_eq!((&nobody["event"], &nobody["fence"]), (&"nobody".into(), &Value::Null));
}

#[test]
fn an_election_that_is_won_is_exit_code_75_for_others() {
    let world = World::new();
    let _leader = leader(&world);
    let busy = elect(&world, &["--no-wait"], "echo never").wait().expect_code(75);
    assert_eq!(busy.out, "");
    busy.says("\"x\" is busy, held by ");
    elect(&world, &["--wait", "50ms"], "true").wait().expect_code(75).says("still busy after 50ms");
    elect(&world, &["--no-wait", "--busy-code", "9"], "true").wait().expect_code(9);
    world.run(&["x", "--no-wait"], "true").outcome().expect_code(75);
}

#[test]
fn an_observer_is_told_who_leads_by_user_host_and_process() {
    let world = World::new();
    let leader = elect(&world, &["--label", "me"], "echo $$ >runs; exec sleep 1000");
    world.pid_in("runs");
    let seen: Value = serde_json::from_str(&once(&world).expect_code(0).out).unwrap();
    let value = seen["value"].as_str().unwrap();
    assert!(value.contains('@') && value.contains(':') && !value.contains(' '), "{value}");
    assert_eq!(
        (&seen["name"], &seen["namespace"], &seen["label"]),
        (&"x".into(), &"default".into(), &"me".into())
    );
    let plain = world.leasehold(&["observe", "x", "--once"]).stdout();
    assert!(plain.contains(&format!(" leader    x  {value} (me, fence ")), "{plain}");
    drop(leader);
}

#[test]
fn an_observer_of_something_else_says_so() {
    let world = World::new();
    world.leasehold(&["counter", "add", "x", "1"]).outcome().expect_code(0);
    world.leasehold(&["observe", "x", "--once"]).outcome().expect_code(70).says("something else");
    world.leasehold(&["observe", "redis://host"]).outcome().expect_code(2).says("URL of an engine");
}
