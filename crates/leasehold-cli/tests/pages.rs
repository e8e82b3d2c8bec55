//! `completions` and `man`: pages for other programs.

use std::fs;

use crate::util::World;

#[test]
fn every_shell_gets_completions() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let page = world.leasehold(&["completions", shell]).stdout();
        assert!(page.contains("permits") && page.contains("doctor"), "{shell}");
        assert!(!page.contains("__start") && !page.contains("__peer"), "{shell}");
    }
    let typo = world.leasehold(&["completions", "tcsh"]).outcome();
    typo.expect_code(2).says("bash, elvish, fish, powershell, zsh");
}

#[test]
fn bash_accepts_its_completions() {
    let world = World::new();
    let page = world.leasehold(&["completions", "bash"]).stdout();
    fs::write(world.path("page"), page).unwrap();
    let mut bash = std::process::Command::new("bash");
    let ask = "source page; COMP_WORDS=(leasehold do); COMP_CWORD=1; \
               _leasehold leasehold do leasehold; echo ${COMPREPLY[@]}";
    bash.args(["--norc", "-c", ask]);
    assert_eq!(world.command(bash).stdout(), "doctor\n");
}

#[test]
fn man_pages_keep_their_examples() {
    let world = World::new();
    let page = world.leasehold(&["man"]).stdout();
    assert!(page.contains(".TH leasehold 1") && page.contains("leasehold\\-run(1)"), "{page}");
    let page = world.leasehold(&["man", "run"]).stdout();
    assert!(page.contains(".SH NOTES\n.nf\nExamples:\n  leasehold run nightly"), "{page}");
    assert_eq!(page.matches(".nf").count(), page.matches(".fi").count());
    let none = world.leasehold(&["man", "walk"]).outcome();
    none.expect_code(2).says("there is no command \"walk\"; one of run, ls");
}

#[test]
fn all_man_pages_are_written() {
    let world = World::new();
    let dir = world.path("share/man1");
    world.leasehold(&["man", "--dir", dir.to_str().unwrap()]).outcome().expect_code(0);
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let commands = [
        "barrier",
        "bench",
        "cache",
        "completions",
        "counter",
        "doctor",
        "elect",
        "evict",
        "group",
        "id",
        "latch",
        "ls",
        "man",
        "observe",
        "once",
        "run",
        "schema",
        "show",
        "token",
        "watch",
    ];
    let pages = commands.map(|it| format!("leasehold-{it}.1"));
    assert_eq!(files, [&pages[..], &["leasehold.1".to_owned()]].concat());
    let written = fs::read_to_string(dir.join("leasehold-run.1")).unwrap();
    assert_eq!(written, world.leasehold(&["man", "run"]).stdout());
}
