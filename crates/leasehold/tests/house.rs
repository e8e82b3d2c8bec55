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
    &["hold", "gate", "parcel"],
    &["schedule", "owners", "losses", "observe"],
    &["core"],
    &["keeper", "acquire"],
    &["client"],
    &["guard"],
    &["locks"],
    &["recipes", "open"],
    &["blocking"],
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

/// The room a file belongs to: its first path segment below `src`.
fn room(file: &Path, src: &Path) -> String {
    let inside = file.strip_prefix(src).expect("below src");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// Every `crate::room` that a file mentions.
fn mentioned(text: &str) -> Vec<String> {
    let rooms = text.split("crate::").skip(1);
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    rooms.map(word).collect()
}

#[test]
fn arrows_point_down() {
    let floors: BTreeMap<&str, usize> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(n, rooms)| rooms.iter().map(move |r| (*r, n)))
        .collect();
    let src = root().join("crates/leasehold/src");
    let mut wrong = Vec::new();
    for file in sources(&src) {
        let from = room(&file, &src);
        if from == "lib" {
            continue;
        }
        let Some(floor) = floors.get(from.as_str()) else {
            wrong.push(format!("{from} is on no floor; give it one in this test"));
            continue;
        };
        let text = fs::read_to_string(&file).expect("text");
        for to in mentioned(&text).into_iter().filter(|to| *to != from) {
            if floors.get(to.as_str()).is_some_and(|other| other >= floor) {
                wrong.push(format!("{} uses {to}", file.display()));
            }
        }
    }
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
        let readme = fs::read_to_string(root().join("README.md")).expect("text");
        assert!(
            readme.contains(&format!("docs/engines/{scheme}.md")),
            "README does not link {scheme}"
        );
    }
    assert!(engines >= 2, "the list of engines was not understood: {error}");
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
    assert!(!manifest.contains("rusqlite"), "the command must not know an engine's driver");
}
