//! `once` and `token`: commands that run once.

use crate::util::{World, eventually};

fn once<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once"], options, &["--", "sh", "-c", script]].concat()
}

#[test]
fn a_command_runs_once_and_says_the_same_again() {
    let world = World::new();
    let script = "echo said; echo complained >&2; echo x >>log; exit 3";
    for _ in 0..3 {
        let outcome = world.leasehold(&once(&["k"], script)).outcome();
        let outcome = outcome.expect_code(3);
        assert_eq!((&*outcome.out, &*outcome.err), ("said\n", "complained\n"));
    }
    assert_eq!(world.read("log"), "x\n");
    world.leasehold(&once(&["k"], "echo other")).outcome().expect_code(2).says("another command");
    world.leasehold(&["once", "k", "--forget"]).outcome().expect_code(0);
    world.leasehold(&once(&["k"], script)).outcome().expect_code(3);
    assert_eq!(world.read("log"), "x\nx\n");
}

#[test]
fn failures_may_be_tried_again() {
    let world = World::new();
    let script = "echo x >>log; exit 3";
    for _ in 0..2 {
        world.leasehold(&once(&["k", "--retry-failed"], script)).outcome().expect_code(3);
    }
    assert_eq!(world.read("log"), "x\nx\n");
}

#[test]
fn one_that_was_killed_is_taken_over_or_not() {
    let world = World::new();
    let script = "echo $LEASEHOLD_TOOK_OVER >>log; echo $$ >pid; exec sleep 600";
    for (key, mode) in [("a", &[][..]), ("b", &["--at-most-once"])] {
        let options = [&[key, "--lease", "1s"], mode].concat();
        let running = world.leasehold(&once(&options, script)).start();
        world.pid_in("pid");
        drop(running);
        let next = world.leasehold(&once(&[&[key, "--lease", "1s"][..], mode].concat(), script));
        if mode.is_empty() {
            let next = next.start();
            eventually("it runs again", || world.read("log") == "0\n1\n");
            drop(next);
        } else {
            next.outcome().expect_code(78).says("cut off");
            assert_eq!(world.read("log"), "0\n1\n0\n");
        }
        std::fs::remove_file(world.path("pid")).unwrap();
    }
}

#[test]
fn a_token_is_redeemed_once() {
    let world = World::new();
    let secret = "1:0123456789abcdef0123456789abcdef";
    let with = |args: &[&str]| world.leasehold(args).env("LEASEHOLD_TOKEN_SECRETS", secret);
    let token = with(&["token", "issue", "--scope", "orders"]).stdout().trim().to_owned();
    let redeem = |token: &str, scope: &str| {
        with(&["token", "redeem", token, "--scope", scope, "--", "sh", "-c", "echo x | tee -a log"])
            .outcome()
    };
    for _ in 0..2 {
        assert_eq!(redeem(&token, "orders").expect_code(0).out, "x\n");
    }
    assert_eq!(world.read("log"), "x\n");
    redeem(&token, "other").expect_code(77).says("something else");
    redeem(&token[..98], "orders").expect_code(77).says("not issued here");
    let bare = world.leasehold(&["token", "issue"]).outcome();
    bare.expect_code(2).says("LEASEHOLD_TOKEN_SECRETS");
}
