//! `cargo xtask check`: everything but the tests, in the order of its cost.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::{Done, cargo, elsewhere, need, root};

const CLIPPY: &str = "clippy --workspace --all-targets --all-features -- -D warnings";
const DOC: &str = "doc --workspace --all-features --no-deps --lib";

pub(crate) fn run(args: &[String]) -> Done {
    if !args.is_empty() {
        return Err(format!("`cargo xtask check` takes no arguments, not {args:?}"));
    }
    step("format", || call("fmt --all --check"))?;
    step("clippy, everything", || call(CLIPPY))?;
    step("clippy, no features", || clippy_alone(None))?;
    for feature in library_features()? {
        step(&format!("clippy, only {feature}"), || clippy_alone(Some(&feature)))?;
    }
    for flags in ["", " --no-default-features"] {
        let line = format!("clippy --package leasehold-cli --all-targets{flags} -- -D warnings");
        step(&format!("clippy, the command{flags}"), || call(&line))?;
    }
    step("docs", || call(DOC))?;
    step("the oldest Rust", elsewhere::oldest)?;
    step("other platforms", elsewhere::platforms)?;
    step("examples", examples)
}

/// Runs every example of the library: they end by themselves and fail if they
/// do not show what they are for.
fn examples() -> Done {
    // Some of them start a server.
    need::meet(&["redis".to_owned(), "postgres".to_owned()])?;
    let folder = root().join("crates/leasehold/examples");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    // Built as the tests are: else the library would be compiled for them alone.
    call("build --workspace --all-features --examples")?;
    names.iter().try_for_each(|name| run_example(name))
}

fn run_example(name: &str) -> Done {
    println!("$ {name}");
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), |it| root().join(it));
    let status = Command::new(target.join("debug/examples").join(name)).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the example `{name}` failed ({status})")),
        Err(error) => Err(format!("the example `{name}` cannot be run: {error}")),
    }
}

/// Announces a step by name, and its time once it is done.
fn step(name: &str, work: impl FnOnce() -> Done) -> Done {
    println!("==> {name}");
    let start = Instant::now();
    let done = work();
    let verdict = done.as_ref().map_or_else(|why| format!("FAILED: {why}"), |()| "ok".to_owned());
    println!("<== {name}: {verdict} ({:.1} s)", start.elapsed().as_secs_f32());
    done.map_err(|_| String::new())
}

/// The library on its own: an engine must not lean on what another one brings.
fn clippy_alone(feature: Option<&str>) -> Done {
    let features = feature.map(|it| format!(" --features {it}")).unwrap_or_default();
    call(&format!("clippy --package leasehold --no-default-features{features} -- -D warnings"))
}

fn call(line: &str) -> Done {
    println!("$ cargo {line}");
    let status = cargo().args(line.split_whitespace()).env("RUSTDOCFLAGS", "-D warnings").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {line}` failed ({status})")),
        Err(error) => Err(format!("`cargo {line}` cannot be run: {error}")),
    }
}

fn library_features() -> Result<Vec<String>, String> {
    let path = root().join("crates/leasehold/Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let features = features(&text);
    if features.is_empty() { Err("the library has no features".to_owned()) } else { Ok(features) }
}

/// The names in `[features]`, without `default`, which is checked by itself, and
/// without what only other features turn on.
fn features(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().map(str::trim);
    let table = lines.skip_while(|line| *line != "[features]").skip(1);
    let table = table.take_while(|line| !line.starts_with('['));
    // The lines of a list over several lines have no name before a `=`.
    let names = table.filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
    let chosen = |name: &&str| is_name(name) && *name != "default" && !name.starts_with('_');
    names.filter(chosen).map(str::to_owned).collect()
}

fn is_name(text: &str) -> bool {
    text.chars().all(|it| it.is_ascii_alphanumeric() || "-_+.".contains(it)) && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{features, library_features};

    #[test]
    fn the_feature_table_is_read_and_nothing_else() {
        let manifest = "[package]\nname = \"x\"\n\n[features]\n# a = comment\ndefault = []\n\
                        full = [\n  \"sqlite\",\n  \"a=b\",\n]\nsqlite = [\"dep:rusqlite\"]\n\n\
                        [dependencies]\ntokio = \"1\"\n";
        assert_eq!(features(manifest), ["full", "sqlite"]);
        assert!(features("[package]\nname = \"x\"\n").is_empty());
    }

    #[test]
    fn the_library_has_features_to_check() {
        assert!(library_features().unwrap().iter().any(|feature| feature == "full"));
    }
}
