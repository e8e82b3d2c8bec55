//! Which file of the library mentions which.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{used, word};

/// The files, as modules, that each file mentions.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Which files a file mentions.
pub(crate) fn arrows(files: &BTreeMap<String, String>) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, code) in files {
        let paths = used(code).into_iter().chain(mentions(code));
        let to = paths.filter_map(|path| resolved(files, from, &path));
        arrows.insert(from.clone(), to.filter(|to| to != from).collect());
    }
    arrows
}

/// Paths that are written out where they are needed.
fn mentions(code: &str) -> Vec<String> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let begins = |at: &usize| !code[..*at].ends_with(':');
    starts.map(|(at, _)| at).filter(begins).map(|at| path_at(&code[at..])).collect()
}

fn path_at(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    text[..end.unwrap_or(text.len())].trim_end_matches(':').to_owned()
}

/// The file that a path leads to. What a file shows of the files below it is not
/// counted: a front door knows its rooms.
fn resolved(files: &BTreeMap<String, String>, from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut base: Vec<&str> = from.split("::").collect();
    match word(parts[0]) {
        "crate" => base.clear(),
        "self" => {}
        "super" => drop(base.pop()),
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
