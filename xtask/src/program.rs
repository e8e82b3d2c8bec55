//! Test programs: built by cargo, run here, two at a time.
//!
//! Most of them wait for leases to end and servers to start, so that two take
//! little more than one. Cargo would run them one after the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo;

/// How many run at the same time.
const LANES: usize = 2;
/// It fills every core by itself, so it runs alone.
const ALONE: &str = "conformance";

/// A program that cargo has built from the tests of one package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    file: PathBuf,
    /// Where its package is; tests look for their files from there.
    package: PathBuf,
}

/// What a program said and how it ended.
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) output: Output,
    pub(crate) took: Duration,
}

impl Ran {
    /// Runs it to its end; what it complains of is shown at once.
    pub(crate) fn of(name: &str, command: &mut Command) -> Result<Self, String> {
        let begun = Instant::now();
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|why| format!("{name} cannot be run: {why}"))?;
        Ok(Self { name: name.to_owned(), output, took: begun.elapsed() })
    }
}

/// Builds the tests of the whole workspace, with every feature; if some are named,
/// those and the unit tests.
pub(crate) fn build(names: &[&str]) -> Result<Vec<Program>, String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--all-features", "--no-run"]);
    if !names.is_empty() {
        command.args(["--lib", "--bins"]).args(names.iter().flat_map(|name| ["--test", name]));
    }
    // What is wrong with the code is shown as ever; the rest is for us.
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let built = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !built.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    Ok(String::from_utf8_lossy(&built.stdout).lines().filter_map(Program::of_message).collect())
}

/// Runs all of them, and tells of each as it ends.
pub(crate) fn run_all(
    programs: Vec<Program>,
    prepare: impl Fn(&mut Command) + Sync,
    tell: impl Fn(Ran) + Sync,
) -> Result<(), String> {
    let (alone, others): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::is_alone);
    let run = |program: &Program| program.run(&prepare).map(&tell);
    let queue = Mutex::new(others.into_iter());
    let next = || queue.lock().ok()?.next();
    let lane = || std::iter::from_fn(next).try_for_each(|program| run(&program));
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a lane died")?)
    })?;
    alone.iter().try_for_each(run)
}

impl Program {
    /// From a line in which cargo tells what it has made.
    fn of_message(line: &str) -> Option<Self> {
        // What was made to be tested is written there, too, and is no test program.
        let profile = line.split_once(r#""profile":{"#)?.1.split('}').next()?;
        if !profile.contains(r#""test":true"#) {
            return None;
        }
        let package = Path::new(field(line, "manifest_path")?).parent()?.to_owned();
        Some(Self { file: field(line, "executable")?.into(), package })
    }

    /// Its name, without what cargo adds to it.
    fn name(&self) -> &str {
        let stem = self.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        stem.rsplit_once('-').map_or(stem, |(name, _)| name)
    }

    fn is_alone(&self) -> bool {
        self.name() == ALONE
    }

    fn run(&self, prepare: impl Fn(&mut Command)) -> Result<Ran, String> {
        println!("running {}", self.name());
        let mut command = Command::new(&self.file);
        command.current_dir(&self.package);
        prepare(&mut command);
        Ran::of(self.name(), &mut command)
    }
}

/// The text of a field, if it has one; cargo's paths need no escapes.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!(r#""{name}":""#))?.1;
    rest.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_from_the_messages_of_cargo() {
        let made = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/kit/Cargo.toml","target":{"test":true},"profile":{"opt_level":"1","test":true},"features":[],"executable":"/w/target/debug/deps/sql_table-0a1b"}"#;
        let program = Program::of_message(made).unwrap();
        assert_eq!(program.package, Path::new("/w/crates/kit"));
        assert_eq!(program.name(), "sql_table");
        assert!(!program.is_alone());
        // A library, and a program that is no test.
        let library = made.replace(r#""/w/target/debug/deps/sql_table-0a1b""#, "null");
        assert_eq!(Program::of_message(&library), None);
        let program = made.replace(r#""1","test":true"#, r#""1","test":false"#);
        assert_eq!(Program::of_message(&program), None);
    }
}
