//! `cargo xtask scale`: growth tables, see `leasehold-scale` in the testkit.

use crate::{Done, cargo, need};

/// Options with which nothing is measured.
const QUIET: [&str; 5] = ["--help", "-h", "--page", "--check", "--svg"];

pub(crate) fn run(args: &[String]) -> Done {
    // Only what measures needs servers.
    if !args.iter().any(|word| QUIET.contains(&&**word)) {
        need::meet(&[])?;
    }
    let mut scale = cargo();
    scale.args(["run", "--quiet", "--release", "--package", "leasehold-testkit"]);
    match scale.args(["--bin", "leasehold-scale", "--"]).args(args).status() {
        Ok(status) if status.success() => Ok(()),
        // The program has said why.
        Ok(_) => Err(String::new()),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}
