//! Which file of the library mentions which.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{used, word};

/// The files, as modules, that each file mentions.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Arrows that are left out: from, to.
const LEFT_OUT: &[(&str, &str)] = &[
    // Generated: its modules stand inside of the file, whose types they call `super`.
    ("engines::etcd::proto", "engines::etcd"),
    // A quorum of engines opens its members by the table of engines, which has the
    // quorum in it: the names of its members are URLs.
    ("engines::quorum::member", "engines"),
    // One list says what can be seen, and makes of it both what each witness does and
    // what all of them are told; so the trait stands with those who are told.
    ("observe::meters", "observe"),
    ("observe::tracer", "observe"),
];

/// Which files a file mentions.
pub(crate) fn arrows(files: &BTreeMap<String, String>) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, code) in files {
        let paths = used(code).into_iter().chain(mentions(&without_doors(code)));
        let to = paths.filter_map(|path| resolved(files, from, &path));
        let to = to.filter(|to| to != from && !LEFT_OUT.contains(&(from.as_str(), to.as_str())));
        arrows.insert(from.clone(), to.collect());
    }
    arrows
}

/// Without what a file only shows to others, and to whom: a front door knows its
/// rooms.
fn without_doors(code: &str) -> String {
    let parts = code.split("pub(in ").enumerate();
    let kept =
        parts.map(|(at, part)| if at == 0 { part } else { &part[part.find(')').unwrap_or(0)..] });
    let code: String = kept.collect();
    let statements = code.split_inclusive(';');
    let is_door = |it: &&str| it.lines().any(|line| line.contains("pub") && line.contains(" use "));
    statements.filter(|it| !is_door(it)).collect()
}

/// Paths that are written out where they are needed.
fn mentions(code: &str) -> Vec<String> {
    let ends = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
    let paths = code.match_indices("::").map(|(at, _)| &code[..at]);
    let starts = paths.map(|before| before.len() - last_word(before).len());
    let begins = starts.filter(|at| !ends(&code[..*at]));
    let paths = begins.map(|at| (at, path_at(&code[at..])));
    // A tree of paths is a `use`, and spread there.
    let is_tree = |at: usize, path: &str| code[at + path.len()..].starts_with("::{");
    paths.filter(|(at, path)| !is_tree(*at, path)).map(|(_, path)| path).collect()
}

fn last_word(text: &str) -> &str {
    let start = text.rfind(|c: char| !c.is_alphanumeric() && c != '_');
    &text[start.map_or(0, |at| at + 1)..]
}

fn path_at(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    text[..end.unwrap_or(text.len())].trim_end_matches(':').to_owned()
}

/// The file that a path leads to.
fn resolved(files: &BTreeMap<String, String>, from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut base: Vec<&str> = from.split("::").collect();
    match word(parts[0]) {
        "crate" => base.clear(),
        "self" => {}
        "super" => drop(base.pop()),
        child if files.contains_key(&format!("{from}::{child}")) => base.push(child),
        _ => return None,
    }
    parts.remove(0);
    while parts.first() == Some(&"super") {
        base.pop();
        parts.remove(0);
    }
    base.extend(parts);
    while !base.is_empty() && !files.contains_key(&base.join("::")) {
        base.pop();
    }
    (!base.is_empty()).then(|| base.join("::"))
}
