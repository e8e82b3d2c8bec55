//! `watch`: changes as lines, and the live view.

use rustix::process::Signal;
use serde_json::Value;

use crate::terminal::{on_terminal, on_terminal_itself};
use crate::util::{Running, World, eventually};

const OFTEN: [&str; 2] = ["--every", "100ms"];

fn watch(world: &World, options: &[&str]) -> Running {
    world.leasehold(&[&["watch"], &OFTEN[..], options].concat()).start()
}

fn events(watch: &Running) -> Vec<Value> {
    let out = watch.out();
    let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn saw(watch: &Running, event: &str, label: &str) {
    eventually(event, || {
        events(watch).iter().any(|it| it["event"] == event && it["label"] == label)
    });
}

#[test]
fn changes_are_json_lines() {
    let world = World::new();
    let early = world.holder(&["early", "--label", "early bird"]);
    let watch = watch(&world, &["--json"]);
    saw(&watch, "held", "early bird");
    early.finish().expect_code(0);
    saw(&watch, "released", "early bird");

    let first = world.holder(&["x", "--label", "first"]);
    saw(&watch, "granted", "first");
    let mut second = world.run(&["x", "--label", "second"], "exec sleep 1000").start();
    saw(&watch, "waiting", "second");
    first.finish().expect_code(0);
    saw(&watch, "granted", "second");
    assert!(!second.has_ended());
    let evict = ["evict", "x", "--all", "--reason", "a drill"];
    world.leasehold(&evict).outcome().expect_code(0);
    saw(&watch, "evicted", "second");
    second.wait().expect_code(76);

    let all = events(&watch);
    let evicted = all.iter().find(|it| it["event"] == "evicted").unwrap();
    assert_eq!((&evicted["name"], &evicted["namespace"]), (&"x".into(), &"default".into()));
    assert_eq!(evicted["mode"], "exclusive");
    assert!(evicted["fence"].as_u64().is_some() && evicted["at"].as_str().is_some(), "{evicted}");
    assert!(evicted["remark"].as_str().unwrap().ends_with("a drill"), "{evicted}");
    assert!(!all.iter().any(|it| it["event"] == "left"), "granted, not gone: {all:?}");
    watch.signal(Signal::INT);
    watch.wait().expect_code(0);
}

#[test]
fn changes_are_plain_lines_without_json() {
    let world = World::new();
    let watch = watch(&world, &["mine/"]);
    let other = world.run(&["other"], "echo $$ >pid-of-other; exec sleep 1000").start();
    world.pid_in("pid-of-other");
    let holder = world.holder(&["mine/a\u{202e}", "--label", "me"]);
    eventually("the grant", || watch.out().contains(" granted   mine/a\\u{202e}  me (exclusive, "));
    holder.finish().expect_code(0);
    eventually("the end", || watch.out().contains(" released  mine/a\\u{202e}  me (exclusive, "));
    assert!(!watch.out().contains("other"), "{}", watch.out());
    drop(other);
    watch.signal(Signal::TERM);
    watch.wait().expect_code(128 + 15);
}

#[test]
fn it_ends_with_its_reader() {
    let world = World::new();
    let mut shell = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_leasehold");
    shell.args(["-c", "{ \"$0\" watch --every 100ms; echo $? >code; } | true", binary]);
    world.command(shell).outcome().expect_code(0);
    eventually("it ends", || world.read("code") == "0\n");
}

#[test]
fn it_needs_a_first_look_and_a_sane_pace() {
    let world = World::new();
    let none = world.leasehold(&["watch", "--engine", "sqlite:/proc/no/such/x.db"]).outcome();
    none.expect_code(2).says("there is no folder");
    let fast = world.leasehold(&["watch", "--every", "1ms"]).outcome();
    fast.expect_code(2).says("100ms or more");
}

#[test]
fn the_view_is_redrawn_in_place_and_ends_with_q() {
    let world = World::new();
    let holder = world.holder(&["x", "--label", "first"]);
    let (view, keyboard) = on_terminal(&world, "watch --every 100ms; stty -a").with_keyboard();
    let view = view.start();
    eventually("the table", || view.out().contains("NAME") && view.out().contains("first"));
    eventually("it is redrawn", || view.out().matches("\x1b[3A\r").count() > 3);
    holder.finish().expect_code(0);
    eventually("the end", || view.out().contains("nothing is held or waited for\x1b[K"));
    keyboard.type_in("q");
    let out = view.wait().expect_code(0).out;
    assert!(out.contains("\x1b[?25l") && out.contains("\x1b[?25h"), "the cursor: {out:?}");
    assert!(out.contains(" icanon") && out.contains(" echo "), "the keyboard: {out:?}");
    assert!(!out.contains("-icanon"), "the keyboard: {out:?}");
}

#[test]
fn the_view_ends_with_an_interrupt() {
    let world = World::new();
    // In place of the shell: dash would answer the interrupt with a code of its own.
    let (view, keyboard) = on_terminal_itself(&world, "watch").with_keyboard();
    let view = view.start();
    eventually("it is there", || view.out().contains("q to quit"));
    keyboard.type_in("\x03");
    let out = view.wait().expect_code(0).out;
    assert!(out.ends_with("\x1b[?25h"), "{out:?}");
}

/// Ctrl-Z: the shell gets a sane terminal, `fg` brings the view back.
#[test]
fn the_view_can_be_suspended() {
    let world = World::new();
    let mut script = std::process::Command::new("script");
    script.args(["-qec", "bash --norc --noediting -i", "/dev/null"]).env("PS1", "ready> ");
    let (shell, keyboard) = world.command(script).with_keyboard();
    let shell = shell.start();
    let binary = env!("CARGO_BIN_EXE_leasehold");
    keyboard.type_in(&format!("{binary} watch\n"));
    eventually("it is there", || shell.out().contains("q to quit"));
    keyboard.type_in("\x1a");
    eventually("the shell has it", || shell.out().contains("Stopped"));
    keyboard.type_in("fg\n");
    eventually("it is back", || shell.out().matches("\x1b[?25l").count() == 2);
    keyboard.type_in("q");
    eventually("the cursor", || shell.out().matches("\x1b[?25h").count() == 2);
    keyboard.type_in("exit 4\n");
    shell.wait().expect_code(4);
}
