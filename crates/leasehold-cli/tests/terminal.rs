//! On a terminal: `script` of util-linux gives us one.

use std::process::Command;

use rustix::process::Signal;

use crate::util::{TestCommand, World, eventually, is_in_front, state_of};

/// `leasehold ARGS` on a terminal; `ARGS` as a shell reads them.
pub(crate) fn on_terminal(world: &World, args: &str) -> TestCommand {
    typed(world, &format!("{} {args}", env!("CARGO_BIN_EXE_leasehold")))
}

/// With no shell between the terminal and the command.
pub(crate) fn on_terminal_itself(world: &World, args: &str) -> TestCommand {
    typed(world, &format!("exec {} {args}", env!("CARGO_BIN_EXE_leasehold")))
}

/// The shell is the same everywhere, whatever the user's is.
fn typed(world: &World, line: &str) -> TestCommand {
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]);
    world.command(script).env("TERM", "xterm").env("SHELL", "/bin/sh")
}

#[test]
fn ls_is_a_table() {
    let world = World::new();
    let holder = world.holder(&["a\u{202e}b", "--label", "me"]);
    let table = on_terminal(&world, "ls").stdout().replace('\r', "");
    let lines: Vec<_> = table.lines().collect();
    let header: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(header, ["NAME", "MODE", "HOLDER", "FENCE", "HELD", "LEFT", "WAITING"]);
    assert!(lines[1].starts_with("a\\u{202e}b  exclusive  me"), "{table}");
    assert_eq!(lines.len(), 2, "{table}");
    holder.finish().expect_code(0);
    assert_eq!(on_terminal(&world, "ls").stdout(), "nothing is held or waited for\r\n");
}

#[test]
fn the_wait_is_one_line_that_goes_away() {
    let world = World::new();
    let first = world.holder(&["x", "--label", "first"]);
    let second = on_terminal(&world, "run x --label second -- echo in").start();
    eventually("it is rewritten", || second.out().matches("\r\x1b[Kwaiting for \"x\"").count() > 1);
    assert!(second.out().contains(", held by first (fence "), "{}", second.out());
    assert!(!second.out().contains('\n'), "one line: {}", second.out());
    first.finish().expect_code(0);
    let out = second.wait().expect_code(0).out;
    assert!(out.ends_with("\r\x1b[Kin\r\n"), "{out:?}");
}

#[test]
fn the_command_reads_from_the_terminal() {
    let world = World::new();
    let read = "run x -- sh -c 'read line; echo got $line'";
    let out = on_terminal(&world, read).input("typed\n").stdout();
    assert!(out.ends_with("got typed\r\n"), "{out:?}");
    let piped = "run x -- sh -c 'read line; echo got $line' | cat";
    let out = on_terminal(&world, piped).input("typed\n").stdout();
    assert!(out.ends_with("got typed\r\n"), "{out:?}");
}

#[test]
fn the_command_is_in_the_foreground_before_it_asks() {
    let world = World::new();
    let look = "set -- $(ps -o pgid=,tpgid= -p $$); [ $1 = $2 ] && echo in front && exit";
    let run = format!("run x -- sh -c 'for i in $(seq 200); do {look}; done'");
    assert_eq!(on_terminal(&world, &run).stdout(), "in front\r\n");
}

#[test]
fn the_terminal_comes_back_to_whoever_called() {
    let world = World::new();
    let twice = "run x -- sh -c 'read a; echo first $a'; read b; echo second $b";
    let out = on_terminal(&world, twice).input("1\n2\n").stdout();
    assert!(out.contains("first 1\r\n") && out.ends_with("second 2\r\n"), "{out:?}");
}

/// Ctrl-C goes to the foreground: to the command, not to us.
#[test]
fn an_interrupt_at_the_keyboard_reaches_the_command() {
    let world = World::new();
    let trap = "run x -- sh -c 'trap \"echo heard; exit 3\" INT; echo $$ >pid; \
                while :; do sleep 0.02; done'";
    let run = on_terminal(&world, trap);
    let (run, keyboard) = run.with_keyboard();
    let run = run.start();
    let child = world.pid_in("pid");
    eventually("it is in the foreground", || is_in_front(child));
    keyboard.type_in("\x03");
    let outcome = run.wait().expect_code(3);
    assert!(outcome.out.contains("heard"), "{outcome:?}");
}

/// Ctrl-Z stops the command and us; the shell's `fg` continues both.
#[test]
fn a_suspended_job_comes_back_with_fg() {
    let world = World::new();
    let mut script = Command::new("script");
    script.args(["-qec", "bash --norc --noediting -i", "/dev/null"]).env("PS1", "ready> ");
    let (shell, keyboard) = world.command(script).with_keyboard();
    let shell = shell.start();
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let job = "sh -c 'echo $$ >pid; read line; echo got $line >line'";
    keyboard.type_in(&format!("{binary} run x --ttl 1h -- {job}\n"));
    let child = world.pid_in("pid");
    // It runs before it has the terminal, and the key is for who has it.
    eventually("it is in the foreground", || is_in_front(child));
    keyboard.type_in("\x1a");
    eventually("the shell has it", || shell.out().contains("Stopped"));
    assert_eq!(state_of(child), Some('T'));
    keyboard.type_in("fg\n");
    eventually("it goes on", || state_of(child) == Some('S'));
    keyboard.type_in("typed\n");
    eventually("it reads", || world.read("line") == "got typed\n");
    keyboard.type_in("echo code $?\n");
    eventually("it has ended", || shell.out().contains("code 0\r"));
    keyboard.type_in("exit 4\n");
    shell.wait().expect_code(4);
}

#[test]
fn a_wait_at_the_terminal_can_be_interrupted() {
    let world = World::new();
    let holder = world.holder(&["x"]);
    let (waiter, keyboard) = on_terminal(&world, "run x -- true").with_keyboard();
    let waiter = waiter.start();
    eventually("it waits", || world.show("x")["waiters"][0].is_object());
    keyboard.type_in("\x03");
    waiter.wait().expect_code(128 + Signal::INT.as_raw());
    assert_eq!(world.show("x")["waiters"], serde_json::json!([]));
    holder.finish().expect_code(0);
}
