//! Every engine and feature is told of wherever a user looks, and the command is a
//! user of the library.

use std::fs;

use crate::source::{root, sources};

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

/// A fault that no test looks for shows nothing.
#[test]
fn every_mutant_of_a_rule_is_looked_for() {
    let src = root().join("crates/leasehold/src");
    let text = fs::read_to_string(src.join("mutant.rs")).expect("text");
    let rules = text.split("of rules: {\n").nth(1).and_then(|rest| rest.split('}').next());
    let lines = rules.expect("a list").lines().map(str::trim);
    let mutants: Vec<_> = lines.filter_map(|line| line.strip_suffix(',')).collect();
    assert!(mutants.len() > 10, "the mutants were not understood: {mutants:?}");
    let code: String =
        sources(&src).iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    for mutant in mutants {
        let (said, asked) = (format!("Mutant::{mutant}"), format!("lives(Mutant::{mutant})"));
        let asked = code.matches(&asked).count();
        assert!(asked > 0 && code.matches(&said).count() > asked, "nothing looks for {mutant}");
    }
}
