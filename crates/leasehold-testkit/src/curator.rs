//! Curator as a peer: built from its sources in `interop/curator` against the
//! jars that Debian has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const JARS: &str = "/usr/share/java";
/// They name what else they need.
const CLASSES: [&str; 5] =
    ["curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute"];
/// Longer than a busy machine keeps a JVM waiting, short enough to be outwaited.
const SESSION: &str = "-Dsession=3000";
const SOURCES: [&str; 4] = [
    "leasehold/interop/Crowd.java",
    "leasehold/interop/Door.java",
    "leasehold/interop/Peer.java",
    "org/apache/curator/framework/recipes/locks/Node.java",
];

/// The program, before the servers it locks on.
pub(crate) fn command() -> io::Result<Command> {
    let mut command = Command::new("java");
    let path = format!("{}:{}:{JARS}/slf4j-nop.jar", classes()?.display(), jars());
    command.args(["-Xmx96m", "-XX:+UseSerialGC", SESSION, "-cp", &path, "leasehold.interop.Peer"]);
    Ok(command)
}

fn jars() -> String {
    CLASSES.map(|jar| format!("{JARS}/{jar}.jar")).join(":")
}

/// Where its classes are; they are made anew whenever a source is newer.
fn classes() -> io::Result<PathBuf> {
    static BUILD: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = root.join("interop/curator/src/main/java");
    let sources = SOURCES.map(|source| sources.join(source));
    let out = root.join("target/interop/curator/classes");
    fs::create_dir_all(&out)?;
    // Another test program may be building, too.
    let lock = fs::File::create(out.with_extension("lock"))?;
    lock.lock()?;
    let stamp = out.with_extension("stamp");
    if !is_newer(&stamp, &sources) {
        javac(&out, &sources)?;
        fs::write(&stamp, "")?;
    }
    Ok(out)
}

fn is_newer(stamp: &Path, sources: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let built = changed(stamp);
    built.is_some() && sources.iter().all(|source| changed(source) < built)
}

fn javac(out: &Path, sources: &[PathBuf]) -> io::Result<()> {
    let mut command = Command::new("javac");
    command.args(["--release", "17", "-cp", &jars(), "-d"]).arg(out).args(sources);
    let output = command.output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn missing(error: io::Error) -> io::Error {
    io::Error::other(format!(
        "javac: {error}; on Debian or Ubuntu: apt-get install default-jdk-headless \
         libcurator-recipes-java (`cargo xtask test` does it when it may)"
    ))
}
