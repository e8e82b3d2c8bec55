//! `group`: members come with a command, and go with it.

use rustix::process::Signal;
use serde_json::Value;

use crate::util::{Running, World, eventually, is_alive};

const STAY: &str = "echo $$ >pid; : >here; while [ ! -e go ]; do sleep 0.02; done; exit 7";

/// A member with a lease that does not end by itself.
fn member(world: &World) -> Running {
    let options = ["group", "join", "g", "a", "--payload", "at 7", "--ttl", "1h", "--label", "me"];
    let member = world.leasehold(&[&options[..], &["--", "sh", "-c", STAY]].concat()).start();
    eventually("it is here", || world.path("here").exists());
    member
}

fn members(world: &World) -> Value {
    world.leasehold(&["group", "ls", "g", "--json"]).json()
}

fn saw(watch: &Running, event: &str) {
    eventually(event, || {
        let out = watch.out();
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().any(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["event"] == event && (line["id"] == "a" || event == "synced")
        })
    });
}

#[test]
fn a_member_is_here_while_its_command_runs_and_its_code_is_passed_on() {
    let world = World::new();
    let watch = world.leasehold(&["group", "watch", "g", "--json"]).start();
    saw(&watch, "synced");
    let member = member(&world);
    saw(&watch, "joined");
    let here = members(&world);
    assert_eq!(here, serde_json::json!([{ "id": "a", "payload": "at 7", "label": "me" }]));
    assert_eq!(world.leasehold(&["group", "ls", "g"]).stdout(), "a\tat 7\tme\n");
    world.touch("go");
    member.wait().expect_code(7);
    assert_eq!(members(&world), serde_json::json!([]));
    saw(&watch, "left");
    watch.signal(Signal::TERM);
    watch.wait().expect_code(128 + 15);
}

#[test]
fn an_id_belongs_to_one() {
    let world = World::new();
    let _member = member(&world);
    let join = |id: &str| world.leasehold(&["group", "join", "g", id, "--", "true"]).outcome();
    join("a").expect_code(75).says("another member has this id: me");
    join("b").expect_code(0);
    join("a/b").expect_code(2).says("has no slash");
    join("").expect_code(2).says("not empty");
}

#[test]
fn the_environment_says_who_it_is() {
    let world = World::new();
    let script = "echo $LEASEHOLD_NAME,$LEASEHOLD_MEMBER,$LEASEHOLD_LABEL";
    let join = ["group", "join", "g", "a", "--label", "me", "--", "sh", "-c", script];
    assert_eq!(world.leasehold(&join).stdout(), "g,a,me\n");
}

#[test]
fn a_member_that_was_killed_is_gone_and_so_is_its_command() {
    let world = World::new();
    let member = member(&world);
    let command = world.pid_in("pid");
    member.signal(Signal::KILL);
    eventually("the command is gone", || !is_alive(command));
    eventually("the member is gone", || members(&world) == serde_json::json!([]));
}
