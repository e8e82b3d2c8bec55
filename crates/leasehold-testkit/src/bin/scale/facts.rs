//! Facts: when, where and of which tree a cell was measured. Each cell has its own,
//! because a page is measured in slices.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Facts {
    day: String,
    cores: usize,
    processor: String,
    kernel: String,
    build: String,
    commit: String,
    /// Whether the tree was not as that commit has it.
    changed: bool,
}

impl Facts {
    /// As they are now.
    pub(crate) fn now() -> Self {
        Self {
            day: said("date", &["-u", "+%F"]),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor(),
            kernel: said("uname", &["-sr"]),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            commit: said("git", &["rev-parse", "--short", "HEAD"]),
            changed: is_changed(),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { day, cores, processor, kernel, build, commit, changed } = self;
        let commit = if commit.is_empty() { "an unknown commit" } else { commit };
        let changed = if *changed { " with uncommitted changes" } else { "" };
        write!(f, "{day}, {build} build of {commit}{changed}, ")?;
        write!(f, "on {cores} cores ({processor}), {kernel}")
    }
}

/// The page itself is no part of what is measured: each slice changes it.
fn is_changed() -> bool {
    let page = [":(top)", ":(top,exclude)docs/scale", ":(top,exclude)docs/scale.md"];
    let words = ["status", "--porcelain", "--untracked-files=no", "--"];
    !said("git", &[&words[..], &page[..]].concat()).is_empty()
}

fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([':', '\t', ' '])).to_owned()
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().into())
}
