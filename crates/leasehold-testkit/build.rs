//! Copies a few of the library's own files for `tests/interleavings.rs` and
//! `tests/retry.rs`, with other primitives below them: shuttle decides who runs
//! next, and the library's sources stay as they are.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

type Swaps = &'static [(&'static str, &'static str)];

const LIBRARY: &str = "../leasehold/src";

const FILES: [(&str, Swaps); 12] = [
    (
        "gate.rs",
        &[("std::sync::{Arc", "shuttle::sync::{Arc"), ("tokio::sync::oneshot", "crate::oneshot")],
    ),
    (
        "detached.rs",
        &[
            ("std::sync::{Arc", "shuttle::sync::{Arc"),
            ("std::sync::atomic", "shuttle::sync::atomic"),
            ("mod watchdog;", "use crate::home::watchdog;"),
        ],
    ),
    (
        "hold.rs",
        &[
            ("mod facts;", r#"mod facts { include!(concat!(env!("OUT_DIR"), "/facts.rs")); }"#),
            (
                "mod shared_facts;",
                r#"mod shared_facts { include!(concat!(env!("OUT_DIR"), "/shared_facts.rs")); }"#,
            ),
            (
                "mod standing;",
                r#"mod standing { include!(concat!(env!("OUT_DIR"), "/standing.rs")); }"#,
            ),
            ("mod terms;", r#"mod terms { include!(concat!(env!("OUT_DIR"), "/terms.rs")); }"#),
            ("mod timing;", r#"mod timing { include!(concat!(env!("OUT_DIR"), "/timing.rs")); }"#),
            (
                "Ticket { id: self.id, name: self.name.clone(), mode: self.mode() }",
                "crate::claim::ticket(self.id, self.name.clone(), self.mode())",
            ),
        ],
    ),
    ("mutant.rs", &[]),
    ("hold/facts.rs", &[]),
    (
        "hold/shared_facts.rs",
        &[
            ("std::sync::{Mutex", "shuttle::sync::{Mutex"),
            ("tokio::sync::Notify", "crate::notify::Notify"),
        ],
    ),
    ("hold/standing.rs", &[]),
    ("hold/terms.rs", &[]),
    ("hold/timing.rs", &[]),
    (
        "schedule.rs",
        &[
            ("std::sync::{Arc", "shuttle::sync::{Arc"),
            ("tokio::sync::Notify", "crate::notify::Notify"),
            ("fastrand::u64(..1 << 40)", "0"),
        ],
    ),
    ("shrink.rs", &[]),
    (
        "layers/retry.rs",
        &[
            ("Error::invalid(", "Error::new(ErrorKind::Invalid, "),
            ("clock.sleep_until(clock.now().after(sleep))", "crate::clock::nap(sleep)"),
        ],
    ),
];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for (file, swaps) in FILES {
        let source = Path::new(LIBRARY).join(file);
        println!("cargo::rerun-if-changed={}", source.display());
        let name = Path::new(file).file_name().unwrap_or_default();
        fs::write(out.join(name), swapped(&fs::read_to_string(&source)?, file, swaps)?)?;
    }
    Ok(())
}

/// Without its own tests and its inner comments, which `include!` cannot take.
fn swapped(source: &str, file: &str, swaps: Swaps) -> io::Result<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.starts_with("//!"));
    let mut code = lines.collect::<Vec<_>>().join("\n");
    for (from, to) in swaps {
        if !code.contains(from) {
            return Err(io::Error::other(format!("{file} has changed: {from:?} is not in it")));
        }
        code = code.replace(from, to);
    }
    Ok(code)
}
