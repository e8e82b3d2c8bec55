//! Wrong use, help, and where locks are kept by default.

use std::os::unix::fs::PermissionsExt;

use crate::util::World;

#[test]
fn an_unknown_option_lists_the_valid_ones() {
    let world = World::new();
    let typo = world.leasehold(&["run", "x", "--tll", "5s", "--", "true"]).outcome();
    typo.expect_code(2)
        .says("'--tll'")
        .says("--permits --wait --no-wait --ttl")
        .says("leasehold run --help");
    let typo = world.leasehold(&["ls", "--everything"]).outcome().expect_code(2);
    typo.says("valid options: --all --engine --namespace --json");
}

#[test]
fn a_command_without_its_dashes_is_explained() {
    let world = World::new();
    let forgot = world.leasehold(&["run", "x", "echo", "hi"]).outcome();
    forgot.expect_code(2).says("the command to run comes after `--`");
    for words in [&["elect", "x", "echo"][..], &["group", "join", "x", "me", "echo"]] {
        let forgot = world.leasehold(words).outcome();
        forgot.expect_code(2).says("the command to run comes after `--`");
    }
}

#[test]
fn bad_values_say_what_is_right() {
    let world = World::new();
    let run = |options: &[&str]| world.run(options, "true").outcome().expect_code(2);
    run(&["two\nlines"]).says("invalid name \"two\\nlines\": control character");
    run(&[""]).says("at least one byte");
    run(&["x", "--ttl", "30"]).says("write 30s, 5m or 1h 30m");
    run(&["x", "--ttl", "0s"]).says("ttl");
    run(&["x", "--on-lost", "panic"]).says("term, kill, ignore");
    run(&["x", "--wait", "1s", "--no-wait"]).says("cannot be used with");
    run(&["x", "--permits", "6/5"]).says("at most all of them");
    run(&["x", "--permits", "two"]).says("write TAKE/OF, as in 2/5");
    run(&["x", "--shared", "--permits", "1/2"]).says("cannot be used with");
    run(&["x", "y", "--shared"]).says("take one name; several are mutexes");
    run(&["x", "--namespace", "a b"]).says("invalid namespace \"a b\"");
    run(&["x", "--engine", "sqlitee:/x"])
        .says("memory:, mysql: or mariadb:, postgres: or postgresql:, quorum:");
    run(&["x", "--engine", "memory:?ttl=3"]).says("valid options: namespace");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let world = World::new();
    assert!(world.leasehold(&["--version"]).stdout().starts_with("leasehold 0."));
    let commands = [
        "run",
        "elect",
        "observe",
        "barrier",
        "latch",
        "counter",
        "group",
        "cache",
        "ls",
        "show",
        "evict",
        "watch",
        "doctor",
        "bench",
        "id",
        "schema",
        "completions",
        "man",
    ];
    for command in commands.map(|it| vec![it]).into_iter().chain([vec![]]) {
        for help in ["-h", "--help"] {
            let text = world.leasehold(&[&command[..], &[help]].concat()).stdout();
            assert!(text.contains("Examples:\n"), "{command:?}");
            assert!(!text.contains("__"), "{command:?}");
        }
    }
    let run = world.leasehold(&["run", "--help"]).stdout();
    for code in ["75", "76", "69", "70", "126", "127", "128+N", "LEASEHOLD_FENCE"] {
        assert!(run.contains(code), "{code}");
    }
    world.leasehold(&[]).outcome().expect_code(2).says(
        "run, ls, show, evict, watch, once, token, elect, observe, barrier, latch, counter, group, \
         cache, doctor, bench, id, schema, completions or man",
    );
}

#[test]
fn a_password_is_never_repeated() {
    let world = World::new();
    for url in ["redis://user:canary@host/", "canary", "sqlite:/no/such/folder/x.db?canary=1"] {
        for args in [&["ls"][..], &["--help"], &["run", "--help"], &["run", "x", "--", "true"]] {
            let outcome = world.leasehold(args).env("LEASEHOLD_ENGINE", url).outcome();
            let safe = !outcome.err.replace("\"canary\"", "").contains("canary");
            assert!(safe && !outcome.out.contains("canary"), "{outcome:?}");
        }
    }
}

#[test]
fn an_engine_that_does_not_answer_is_code_69() {
    let world = World::new();
    world.leasehold(&["ls"]).outcome().expect_code(0);
    let blocked = world.block_engine();
    let run = world.run(&["x"], "echo never").outcome().expect_code(69);
    assert_eq!(run.out, "");
    run.says("no answer from the engine in 15s; check --engine");
    drop(blocked);
}

#[test]
fn a_folder_that_is_not_there_is_wrong_use() {
    let world = World::new();
    let none = world.leasehold(&["ls", "--engine", "sqlite:/proc/no/such/locks.db"]).outcome();
    none.expect_code(2).says("there is no folder /proc/no/such: create it first");
}

#[test]
fn locks_are_in_the_state_folder_by_default() {
    let world = World::new();
    let state = world.path("state");
    let run = world.run(&["x"], "true").without_env("LEASEHOLD_ENGINE");
    run.env("XDG_STATE_HOME", &state).outcome().expect_code(0);
    let folder = state.join("leasehold");
    assert!(folder.join("locks.db").exists());
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);

    let at_home = world.run(&["x"], "true").without_env("LEASEHOLD_ENGINE");
    let at_home = at_home.without_env("XDG_STATE_HOME").env("HOME", world.path("home ?%"));
    at_home.outcome().expect_code(0);
    assert!(world.path("home ?%/.local/state/leasehold/locks.db").exists());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let world = World::new();
    let mut shell = std::process::Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_leasehold");
    shell.args(["-c", "{ \"$0\" ls --help; echo $? >code; } | true", binary]);
    world.command(shell).outcome().expect_code(0);
    assert_eq!(world.read("code"), "0\n");
}
