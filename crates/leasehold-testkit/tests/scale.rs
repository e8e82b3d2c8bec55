//! The growth tables are kept alive: the program runs, every figure that it promises
//! is there, and the page is what the program makes of its cells. How large the
//! figures are is not asked.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Of each work the figures that any engine has.
const FIGURES: [(&str, &[&str]); 6] = [
    ("waiters", &["join_us", "looked_s", "waiting_client", "alone_ms", "beside_ms", "hand_us"]),
    ("held", &["take_us", "keep_client", "worst_ms", "release_us", "client_bytes", "lost"]),
    ("loss", &["evicted_us"]),
    ("list", &["names_us", "records_us"]),
    ("names", &["pair_us", "client_bytes"]),
    ("farewell", &["drop_s", "handle_s", "left"]),
];

fn scale(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_leasehold-scale")).args(words).output().expect("the program")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn goes_well(words: &[&str]) {
    let ran = scale(words);
    assert!(ran.status.success(), "{words:?}: {}", said(&ran));
}

#[test]
fn every_cell_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scale.json");
    let path = file.to_str().unwrap();
    goes_well(&["--quick", "--engine", "memory,sqlite", "--sizes", "3,9", "--json", path]);
    let sheet = sheet(&file);
    for engine in ["memory", "sqlite"] {
        for (work, figures) in FIGURES {
            for size in [3, 9] {
                has_figures(&sheet, engine, work, size, figures);
            }
        }
        let renewed = cell(&sheet, engine, "held", 9)["figures"]["renewed"].as_f64();
        assert!(renewed >= Some(1.0), "a look at renewals has seen each: {renewed:?}");
    }
    assert_eq!(cell(&sheet, "sqlite", "clients", 9)["ending"], "done");
    has_figures(&sheet, "sqlite", "processes", 3, &["hand_us", "spread"]);
    charts_are_whole(path, folder.path());
}

/// Nobody loses a lease, and everybody who waits has a turn.
#[test]
fn servers_that_keep_what_they_know_are_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scale.json");
    let row = ["--engine", "redis-aof", "--sizes", "30", "--json", file.to_str().unwrap()];
    goes_well(&[&["--quick"], &row[..]].concat());
    let sheet = sheet(&file);
    has_figures(
        &sheet,
        "redis-aof",
        "restart",
        30,
        &["down_s", "known_s", "worst_ms", "through_s"],
    );
    let figures = &cell(&sheet, "redis-aof", "restart", 30)["figures"];
    assert_eq!(figures["lost"].as_f64(), Some(0.0));
    assert!(figures["down_s"].as_f64() > Some(0.0), "it was away: {figures}");
}

fn sheet(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn cell<'a>(sheet: &'a Value, engine: &str, work: &str, size: u64) -> &'a Value {
    let is =
        |cell: &&Value| cell["engine"] == engine && cell["work"] == work && cell["size"] == size;
    sheet["cells"].as_array().unwrap().iter().find(is).expect("a cell")
}

fn has_figures(sheet: &Value, engine: &str, work: &str, size: u64, figures: &[&str]) {
    let cell = cell(sheet, engine, work, size);
    assert_eq!(cell["ending"], "done", "{cell}");
    for figure in figures {
        assert!(cell["figures"][figure].is_number(), "{figure} is missing: {cell}");
    }
}

fn charts_are_whole(sheet: &str, folder: &Path) {
    goes_well(&["--json", sheet, "--svg", folder.to_str().unwrap()]);
    let svg = fs::read_to_string(folder.join("waiters-join-us.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    let named = ["memory", "sqlite"].iter().all(|engine| svg.contains(engine));
    assert!(named && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn what_is_not_an_option_is_refused_with_those_that_are() {
    for (words, told) in [
        (&["--engin", "redis"][..], "--engine"),
        (&["--engine", "mongodb"], "zookeeper"),
        (&["--work", "sleep"], "waiters"),
        (&["--sizes", "10,-1"], "numbers above 0"),
        (&["--limit"], "--limit takes a value"),
        (&["--quick", "--update"], "leave out --quick"),
        (&["--update", "--json", "x.json"], "--docs DIR"),
    ] {
        let ran = scale(words);
        assert!(!ran.status.success() && said(&ran).contains(told), "{words:?}: {}", said(&ran));
    }
}

fn docs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
}

/// Tables and charts are made of the cells, and of nothing else.
#[test]
fn the_page_is_what_is_made_of_its_cells() {
    goes_well(&["--check", "--docs", docs().to_str().unwrap()]);
}

#[test]
fn a_page_is_measured_in_slices_and_does_not_drift() {
    let folder = tempfile::tempdir().unwrap();
    let (page, place) = (folder.path().join("scale.md"), folder.path().to_str().unwrap());
    fs::copy(docs().join("scale.md"), &page).unwrap();
    for engine in ["memory", "sqlite"] {
        let slice = ["--work", "list", "--sizes", "3,9", "--engine", engine];
        goes_well(&[&["--update", "--docs", place], &slice[..]].concat());
        goes_well(&["--check", "--docs", place]);
    }
    let sheet = sheet(&folder.path().join("scale/scale.json"));
    assert!(cell(&sheet, "memory", "list", 9)["facts"]["day"].is_string(), "{sheet}");
    for file in ["scale.md", "scale/list-names-us.svg", "scale/nobody-draws-this.svg"] {
        drifts(place, &folder.path().join(file));
    }
}

/// A file that was changed by hand is named, and written anew.
fn drifts(place: &str, file: &Path) {
    let text = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, text.replace("memory", "a rumour")).unwrap();
    let ran = scale(&["--check", "--docs", place]);
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(!ran.status.success() && said(&ran).contains(name), "{}", said(&ran));
    goes_well(&["--page", "--docs", place]);
    goes_well(&["--check", "--docs", place]);
}
