//! `cargo xtask interop`: builds the clients of other languages in `interop/`,
//! and runs the tests that let them and Leasehold lock the same names.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Done, cargo, need, root};

/// How long a peer may take to build, downloads included.
const BOUND: Duration = Duration::from_secs(240);
/// How long two sides fight for a name with `--long`; the tests read it.
const SECONDS: (&str, &str) = ("LEASEHOLD_INTEROP_SECONDS", "30");
/// What runs without being built lies beside its packages.
const SCRIPTS: &[&str] = &["peer.py", "peer.mjs"];
const USAGE: &str = "`cargo xtask interop` takes [PEER..] [--long] [--if-reachable]";

/// A client of another language.
struct Peer {
    name: &'static str,
    /// The tests that let it and Leasehold compete.
    suite: &'static str,
    /// The programs that build and run it.
    programs: &'static [&'static str],
    /// What pins its packages: as long as these stay, they are not fetched again.
    manifests: &'static [&'static str],
    /// Brings its packages from their registry.
    fetch: fn(&Place) -> Command,
    /// What is left to do without a registry; a failure here is never excused.
    build: fn(&Place) -> Option<Command>,
}

/// Where a peer comes from, and where it goes.
struct Place {
    folder: PathBuf,
    out: PathBuf,
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "redisson",
        suite: "interop",
        programs: &["mvn", "javac", "java"],
        manifests: &["pom.xml"],
        fetch: maven,
        build: javac,
    },
    Peer {
        name: "redsync",
        suite: "interop",
        programs: &["go"],
        manifests: &["go.mod", "go.sum"],
        fetch: go_fetch,
        build: go_build,
    },
    Peer {
        name: "redis_py",
        suite: "interop",
        programs: &["python3"],
        manifests: &["requirements.txt"],
        fetch: pip,
        build: |_| None,
    },
    Peer {
        name: "node_redlock",
        suite: "interop",
        programs: &["npm", "node"],
        manifests: &["package.json", "package-lock.json"],
        fetch: npm,
        build: |_| None,
    },
    Peer {
        name: "etcd_go",
        suite: "interop_etcd",
        programs: &["go", "etcd"],
        manifests: &["go.mod", "go.sum"],
        fetch: go_fetch,
        build: go_build,
    },
];

/// What to do, as the arguments say.
struct Order {
    peers: Vec<&'static Peer>,
    /// Two sides compete for half a minute, not for a moment.
    long: bool,
    /// Peers that cannot be built are left out, and named.
    if_reachable: bool,
}

pub(crate) fn run(args: &[String]) -> Done {
    let order = order(args)?;
    // The servers that both sides meet at, and what looks into them.
    need::meet(&["redis".to_owned(), "etcd".to_owned()])?;
    let mut ready = Vec::new();
    for peer in &order.peers {
        match peer.fetch() {
            Ok(()) => ready.push(peer),
            Err(why) if order.if_reachable => {
                println!("interop: {} not run, because {why}", peer.name);
            }
            Err(why) => return Err(format!("interop: {}: {why}", peer.name)),
        }
    }
    ready.iter().try_for_each(|peer| peer.build())?;
    ready.iter().try_for_each(|peer| test(peer, order.long))
}

/// Builds every peer, or says which one cannot be.
pub(crate) fn prepare() -> Done {
    let each = |peer: &Peer| peer.fetch().and_then(|()| peer.build());
    PEERS.iter().try_for_each(|peer| each(peer).map_err(|why| format!("{}: {why}", peer.name)))
}

/// Builds the peer that is a crate. It asks for a newer Rust than it needs.
pub(crate) fn idempotent() -> Done {
    let folder = root().join("interop/idempotent");
    let out = root().join("target/interop/idempotent");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--ignore-rust-version", "--target-dir"]);
    match build.arg(out).current_dir(folder).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("idempotent cannot be built ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

fn order(args: &[String]) -> Result<Order, String> {
    let (flags, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|it| *it == flag);
    let known = ["--long", "--if-reachable"];
    if let Some(flag) = flags.iter().find(|flag| !known.contains(&flag.as_str())) {
        return Err(format!("{USAGE}, not {flag}"));
    }
    let mut peers: Vec<&Peer> = PEERS.iter().collect();
    if !names.is_empty() {
        peers = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    }
    Ok(Order { peers, long: has("--long"), if_reachable: has("--if-reachable") })
}

fn find(name: &str) -> Result<&'static Peer, String> {
    let names = PEERS.map(|peer| peer.name).join(", ");
    let found = PEERS.iter().find(|peer| peer.name == name);
    found.ok_or_else(|| format!("there is no peer `{name}`; valid: {names}"))
}

impl Peer {
    /// Brings its packages, unless they are there; the error says what is missing.
    fn fetch(&self) -> Done {
        let missing = |program: &&&str| !is_there(program);
        if let Some(program) = self.programs.iter().find(missing) {
            return Err(format!("the program `{program}` is not installed"));
        }
        let place = self.place()?;
        let (stamp, wanted) = (place.out.join("fetched"), place.read(self.manifests)?);
        if fs::read_to_string(&stamp).is_ok_and(|fetched| fetched == wanted) {
            return Ok(());
        }
        place.clear()?;
        place.bring(self.manifests)?;
        bounded((self.fetch)(&place))?;
        fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
    }

    fn build(&self) -> Done {
        let place = self.place()?;
        place.bring(SCRIPTS)?;
        (self.build)(&place).map_or(Ok(()), bounded)
    }

    fn place(&self) -> Result<Place, String> {
        let out = root().join("target/interop").join(self.name);
        fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        Ok(Place { folder: root().join("interop").join(self.name), out })
    }
}

impl Place {
    fn read(&self, files: &[&str]) -> Result<String, String> {
        let read = |file: &&str| fs::read_to_string(self.folder.join(file));
        let texts: Result<Vec<_>, _> = files.iter().map(read).collect();
        Ok(texts.map_err(|error| format!("{}: {error}", self.folder.display()))?.concat())
    }

    /// Nothing of other versions may stay.
    fn clear(&self) -> Done {
        let cleared = fs::remove_dir_all(&self.out).and_then(|()| fs::create_dir_all(&self.out));
        cleared.map_err(|error| format!("{}: {error}", self.out.display()))
    }

    /// Copies those of the files that the peer has: nothing that a build makes
    /// may lie among the sources.
    fn bring(&self, files: &[&str]) -> Done {
        let has = files.iter().filter(|file| self.folder.join(file).is_file());
        let mut copies = has.map(|file| fs::copy(self.folder.join(file), self.out.join(file)));
        copies.try_for_each(|copied| copied.map(drop).map_err(|error| error.to_string()))
    }
}

/// Its jars come from Maven Central.
fn maven(place: &Place) -> Command {
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", "-ntp", "-Dstyle.color=never", "dependency:copy-dependencies"]);
    command.arg("-f").arg(place.folder.join("pom.xml"));
    command.arg(format!("-Dinterop.out={}", place.out.display()));
    command
}

fn javac(place: &Place) -> Option<Command> {
    let sources = fs::read_dir(place.folder.join("src/main/java/leasehold/interop")).ok()?;
    let mut command = Command::new("javac");
    command.args(["--release", "17", "-cp"]).arg(place.out.join("lib/*"));
    command.arg("-d").arg(place.out.join("classes"));
    command.args(sources.flatten().map(|file| file.path()));
    Some(command)
}

fn go(place: &Place) -> Command {
    let mut command = Command::new("go");
    command.current_dir(&place.folder).env("GOMODCACHE", place.out.join("mod"));
    command.env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false");
    command
}

fn go_fetch(place: &Place) -> Command {
    let mut command = go(place);
    command.args(["mod", "download"]);
    command
}

fn go_build(place: &Place) -> Option<Command> {
    let mut command = go(place);
    command.arg("build").arg("-o").arg(place.out.join("peer")).arg(".").env("GOPROXY", "off");
    Some(command)
}

fn pip(place: &Place) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "-q", "--no-deps", "--root-user-action=ignore"]);
    command.arg("--target");
    command.arg(place.out.join("lib")).arg("-r").arg(place.out.join("requirements.txt"));
    command
}

fn npm(place: &Place) -> Command {
    let mut command = Command::new("npm");
    command.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    command.current_dir(&place.out);
    command
}

pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

/// Runs a command to its end, or ends it: a registry that does not answer must
/// not hold up the pipeline.
pub(crate) fn bounded(mut command: Command) -> Done {
    println!("$ {command:?}");
    let line = command.get_program().to_string_lossy().into_owned();
    let broken = |error| format!("`{line}` cannot be run: {error}");
    let mut child = command.stdin(Stdio::null()).spawn().map_err(broken)?;
    let end = Instant::now() + BOUND;
    while Instant::now() < end {
        match child.try_wait().map_err(broken)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("`{line}` failed ({status})")),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("`{line}` took longer than {BOUND:?}; does its registry answer?"))
}

fn test(peer: &Peer, long: bool) -> Done {
    let Peer { name, suite, .. } = peer;
    let mut command = cargo();
    // The features of all tests: else the library would be compiled for it alone.
    command.args(["test", "--workspace", "--all-features", "--test", suite, "--"]);
    command.arg(format!("{name}::"));
    if long {
        command.env(SECONDS.0, SECONDS.1);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("interop with {name} failed ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{PEERS, order};
    use crate::root;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn peers_and_flags_come_in_any_order() {
        let order = order(&words("redsync --long redis_py")).unwrap();
        let names: Vec<_> = order.peers.iter().map(|peer| peer.name).collect();
        assert_eq!(names, ["redsync", "redis_py"]);
        assert!(order.long && !order.if_reachable);
    }

    #[test]
    fn all_peers_unless_some_are_named() {
        assert_eq!(order(&[]).unwrap().peers.len(), PEERS.len());
        assert!(order(&words("cobol")).err().unwrap().contains("redisson"));
        assert!(order(&words("--fast")).is_err());
    }

    #[test]
    fn every_peer_has_a_folder() {
        assert!(PEERS.iter().all(|peer| root().join("interop").join(peer.name).is_dir()));
    }
}
