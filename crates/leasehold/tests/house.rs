//! The house: which room may know which, and that every engine is complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the ground up. A room may use those of lower floors only.
const FLOORS: &[&[&str]] = &[
    &["error", "sim"],
    &["name", "clock", "hex", "mutant"],
    &["claim"],
    &["engine", "home"],
    &["url", "connection"],
    &["fence", "sql"],
    &["engines", "layers"],
    &["hold", "gate", "detached"],
    &["schedule", "owners", "losses", "observe"],
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    files
        .into_iter()
        .chain(below)
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}

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

#[tokio::test]
async fn every_engine_has_its_page_and_its_feature() {
    let error = leasehold::open("nowhere:").await.expect_err("no such engine").to_string();
    let listed = error.rsplit("one of ").next().expect("a list").split(", ");
    let manifest = fs::read_to_string(root().join("crates/leasehold/Cargo.toml")).expect("text");
    let mut engines = 0;
    for scheme in listed.map(|words| words.split(':').next().expect("a scheme")) {
        engines += 1;
        let page = root().join(format!("docs/engines/{scheme}.md"));
        let page =
            fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        for heading in
            ["Guarantees", "Cost", "How it works", "Options", "Failure modes", "Operating it"]
        {
            assert!(page.contains(&format!("\n## {heading}\n")), "{scheme}.md lacks {heading}");
        }
        let feature = scheme == "memory" || manifest.contains(&format!("\n{scheme} = ["));
        assert!(feature, "the engine {scheme} has no feature of its name");
        for (file, words) in [
            ("README.md", format!("docs/engines/{scheme}.md")),
            ("docs/guide/glossary.md", format!("`{scheme}`")),
            ("crates/leasehold/src/open.rs", format!("`{scheme}:")),
        ] {
            let text = fs::read_to_string(root().join(file)).expect("text");
            assert!(text.contains(&words), "{file} does not tell of {scheme}");
        }
    }
    assert!(engines >= 2, "the list of engines was not understood: {error}");
}

/// The features of the library that are for users.
fn features() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates/leasehold/Cargo.toml")).expect("text");
    let features = manifest.split("\n[features]\n").nth(1).expect("features");
    let features = features.split("\n[").next().expect("a part").lines();
    let names = features.filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
    names.filter(|name| !name.starts_with('_') && *name != "default").map(str::to_owned).collect()
}

#[test]
fn every_feature_is_in_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).expect("text");
    let table = readme.split("| cargo feature |").nth(1).expect("a table");
    let table = table.split("\n\n").next().expect("rows");
    let features = features();
    assert!(features.len() > 10, "the features were not understood: {features:?}");
    for feature in features {
        assert!(table.contains(&format!("`{feature}`")), "README does not tell of {feature}");
    }
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

#[test]
fn the_command_uses_the_public_api_alone() {
    let manifest =
        fs::read_to_string(root().join("crates/leasehold-cli/Cargo.toml")).expect("text");
    let needs = manifest.split("\n[dependencies]\n").nth(1).expect("dependencies");
    let drivers =
        ["rusqlite", "redis", "tokio-postgres", "mysql_async", "tonic", "prost", "tokio-rustls"];
    for driver in drivers {
        let known = needs.lines().any(|line| line.split([' ', '.', '=']).next() == Some(driver));
        assert!(!known, "the command must not know the driver {driver}");
    }
    for file in sources(&root().join("crates/leasehold-cli/src")) {
        let text = fs::read_to_string(&file).expect("text");
        let inner = ["leasehold::mutant", "leasehold::sim", "dyn Engine"];
        let used = inner.iter().find(|path| text.contains(**path));
        assert!(used.is_none(), "{} uses {used:?}, which no user does", file.display());
    }
}
