//! The oldest Rust that the manifest names, and platforms that are not this one.
//! Both are only compiled: nothing of them can be run here.

use std::fs;
use std::process::Command;

use crate::interop::{bounded, is_there};
use crate::{Done, root};

/// Platforms that the command is compiled for, besides the one it is tested on.
const PLATFORMS: [&str; 1] = ["x86_64-apple-darwin"];

/// All that is not a test, with the oldest Rust that may be used.
pub(crate) fn oldest() -> Done {
    let version = oldest_version()?;
    if let Err(why) = have(&["toolchain", "install", &version, "--profile", "minimal"]) {
        println!("not checked, because Rust {version} cannot be had: {why}");
        return Ok(());
    }
    let mut check = Command::new("rustup");
    check.args(["run", &version, "cargo", "check", "--workspace", "--all-features"]);
    done(check.env("CARGO_TARGET_DIR", root().join("target/oldest")))
}

/// The command with every engine, for other platforms.
pub(crate) fn platforms() -> Done {
    PLATFORMS.iter().try_for_each(|platform| {
        if let Err(why) = have(&["target", "add", platform]) {
            println!("not checked, because the target {platform} cannot be had: {why}");
            return Ok(());
        }
        let mut check = crate::cargo();
        check.args(["check", "--package", "leasehold-cli", "--all-features", "--target", platform]);
        // Rust code is checked; what is written in C would need a C compiler for there.
        let variable = platform.replace('-', "_");
        done(check.env(format!("CC_{variable}"), "true").env(format!("AR_{variable}"), "true"))
    })
}

/// Asks rustup for something, which may be there already.
fn have(args: &[&str]) -> Done {
    if !is_there("rustup") {
        return Err("the program `rustup` is not installed".to_owned());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(args);
    bounded(rustup)
}

fn done(command: &mut Command) -> Done {
    println!("$ {command:?}");
    match command.current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("it does not compile ({status})")),
        Err(error) => Err(format!("it cannot be run: {error}")),
    }
}

fn oldest_version() -> Result<String, String> {
    let path = root().join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    named(&text).ok_or_else(|| "Cargo.toml names no rust-version".to_owned())
}

fn named(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.trim_start().starts_with("rust-version"))?;
    line.split('"').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{named, oldest_version};

    #[test]
    fn the_oldest_rust_is_the_one_of_the_manifest() {
        assert_eq!(named("[package]\nrust-version = \"1.89\"\n").unwrap(), "1.89");
        assert_eq!(named("[package]\n"), None);
        assert!(oldest_version().unwrap().starts_with("1."));
    }
}
