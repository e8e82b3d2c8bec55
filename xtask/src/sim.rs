//! `cargo xtask sim`: the simulator, which is built in its own way.

use std::ffi::OsString;
use std::process::Command;

use crate::program::Ran;
use crate::{Done, cargo, root};

/// How long the simulator looks for broken promises in `cargo xtask test`.
const SECONDS: &str = "60";

/// Passes everything on to the simulator; it knows its own options.
pub(crate) fn run(args: &[String]) -> Done {
    let mut simulator = simulated(&["run", "--quiet", "--profile", "sim"]);
    simulator.arg("--").args(args);
    match simulator.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the simulator has found something ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// Its own tests, then a fixed budget of schedules.
pub(crate) fn test() -> Result<[Ran; 2], String> {
    let mut tests = simulated(&["test", "--quiet", "--profile", "sim", "--no-fail-fast"]);
    let mut campaign = simulated(&["run", "--quiet", "--profile", "sim"]);
    campaign.args(["--", "--seconds", SECONDS]);
    Ok([Ran::of("tests of the simulator", &mut tests)?, Ran::of("simulator", &mut campaign)?])
}

/// Cargo for the simulator: everything is compiled with its seams, in a folder
/// of its own, so that no other build is thrown away for it.
fn simulated(args: &[&str]) -> Command {
    let mut command = cargo();
    command.args(args).args(["--package", "leasehold-sim"]);
    command.env("RUSTFLAGS", flags()).env("CARGO_TARGET_DIR", root().join("target/sim"));
    command
}

/// The seams, and a runtime whose chance has a seed.
fn flags() -> OsString {
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg leasehold_sim --cfg tokio_unstable");
    flags
}
