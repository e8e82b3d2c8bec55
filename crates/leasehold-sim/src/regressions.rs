//! Schedules that once broke a promise, shrunk. Files, not seeds: a seed dies
//! with the next change of the generator.

use std::fs;
use std::path::{Path, PathBuf};

use crate::campaign::attempt;
use crate::schedule::Schedule;

/// Where they are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

/// Plays each of them; what they broke, by file.
///
/// # Errors
///
/// If a file cannot be read.
pub fn play_all() -> Result<Vec<(String, Vec<String>)>, String> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .map_err(|error| format!("{}: {error}", folder().display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "txt"))
        .collect();
    files.sort();
    files.iter().map(|path| play_file(path)).collect()
}

fn play_file(path: &Path) -> Result<(String, Vec<String>), String> {
    let schedule = read(path)?;
    let broken = attempt(&schedule, false).broken;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, broken.iter().map(ToString::to_string).collect()))
}

/// A schedule from a file.
///
/// # Errors
///
/// If it cannot be read, with the line.
pub fn read(path: &Path) -> Result<Schedule, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error| format!("{}: {error}", path.display()))
}
