//! Arrows point down: a room uses rooms of lower floors only.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::arrows::arrows;
use crate::source::{library, root, sources};

/// The rooms from the ground up. A room may use those of lower floors only.
const FLOORS: &[&[&str]] = &[
    &["error", "sim"],
    &["name", "clock", "hex", "mutant", "shrink"],
    &["claim"],
    &["engine", "home"],
    &["url", "connection"],
    &["fence", "sql"],
    &["engines", "layers"],
    &["hold", "gate", "detached"],
    &["schedule", "owners", "losses", "observe", "watches"],
    &["core"],
    &["keeper", "acquire"],
    &["client"],
    &["guard"],
    &["locks"],
    &["recipes", "open"],
    &["blocking"],
];

/// The same inside of `engines`.
const ENGINE_FLOORS: &[&[&str]] = &[
    &["kit"],
    &["memory", "sqlite", "database", "redis", "consensus"],
    &["zookeeper", "etcd", "quorum"],
];

/// The same inside of the engines that have floors of their own. What is not on the
/// list is a file of the engine itself, which may use all of them.
const INNER_FLOORS: &[(&str, &[&[&str]])] = &[
    (
        "engines::database",
        &[&["dialect"], &["drivers"], &["pool"], &["table", "advisory", "unique"]],
    ),
    (
        "engines::redis",
        &[&["address"], &["settings"], &["link"], &["checkup"], &["native", "compat"]],
    ),
];

/// The room below `folder` that a file belongs to.
fn room(file: &Path, folder: &Path) -> String {
    let inside = file.strip_prefix(folder).expect("below the folder");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// Every room below `path` that a file mentions.
fn mentioned(text: &str, path: &str) -> Vec<String> {
    let rooms = text.split(path).skip(1);
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    rooms.map(word).collect()
}

/// What points up or sideways among the rooms of a folder, or is on no floor.
fn wrong_arrows(folder: &Path, path: &str, floors: &[&[&str]], apart: &[&str]) -> Vec<String> {
    let floors: BTreeMap<&str, usize> = floors
        .iter()
        .enumerate()
        .flat_map(|(n, rooms)| rooms.iter().map(move |room| (*room, n)))
        .collect();
    let mut wrong = Vec::new();
    for file in sources(folder) {
        let from = room(&file, folder);
        if apart.contains(&from.as_str()) {
            continue;
        }
        let Some(floor) = floors.get(from.as_str()) else {
            wrong.push(format!("{from} is on no floor; give it one in this test"));
            continue;
        };
        let text = fs::read_to_string(&file).expect("text");
        for to in mentioned(&text, path).into_iter().filter(|to| *to != from) {
            if floors.get(to.as_str()).is_some_and(|other| other >= floor) {
                wrong.push(format!("{} uses {to}", file.display()));
            }
        }
    }
    wrong
}

#[test]
fn arrows_point_down() {
    let src = root().join("crates/leasehold/src");
    let wrong = wrong_arrows(&src, "crate::", FLOORS, &["lib"]);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn arrows_point_down_among_the_engines() {
    let engines = root().join("crates/leasehold/src/engines");
    // The table of engines knows all of them.
    let apart = ["mod", "schema"];
    let wrong = wrong_arrows(&engines, "crate::engines::", ENGINE_FLOORS, &apart);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn arrows_point_down_inside_of_engines() {
    let arrows = arrows(&library());
    let mut wrong = Vec::new();
    for (engine, floors) in INNER_FLOORS {
        let inside = format!("{engine}::");
        let room = |module: &str| {
            let room = module.strip_prefix(&inside)?.split("::").next()?;
            floors.iter().position(|rooms| rooms.contains(&room)).map(|at| (at, room.to_owned()))
        };
        for room in floors.iter().flat_map(|rooms| rooms.iter()) {
            let path = format!("{inside}{room}");
            assert!(arrows.keys().any(|module| module.starts_with(&path)), "{path} is gone");
        }
        for (from, to) in arrows.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)))
        {
            if let (Some(from_room), Some(to_room)) = (room(from), room(to))
                && from_room.1 != to_room.1
                && to_room.0 >= from_room.0
            {
                wrong.push(format!("{from} uses {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A simulation knows whose task it is only if it begins at home.
#[test]
fn tasks_begin_at_home() {
    let src = root().join("crates/leasehold/src");
    let ours = |file: &PathBuf| !file.components().any(|part| part.as_os_str() == "tests");
    for file in sources(&src).into_iter().filter(ours) {
        let text = fs::read_to_string(&file).expect("text");
        let code = text.split("#[cfg(test)]").next().expect("a part");
        let apart = ["home.rs", "call.rs"].iter().any(|known| file.ends_with(known));
        let handle = code.contains("tokio::runtime") && !apart && !file.ends_with("tests.rs");
        assert!(!handle, "{} must start tasks by home::Handle", file.display());
    }
}
