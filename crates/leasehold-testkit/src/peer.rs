//! A client of another language, or ours, as a process: see interop/README.md.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::curator;

/// How long a peer may take to answer; longer than any order takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that speaks the line protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tongue {
    /// Leasehold, the bare driver and rslock.
    Rust,
    /// Redisson, on the JVM.
    Redisson,
    /// redsync, in Go.
    Redsync,
    /// redis-py, in Python.
    RedisPy,
    /// redlock, on Node.
    NodeRedlock,
    /// Curator, on the JVM.
    Curator,
    /// The `concurrency` package of etcd, in Go.
    EtcdGo,
}

impl Tongue {
    /// As its folder is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "ours",
            Self::Redisson => "redisson",
            Self::Redsync => "redsync",
            Self::RedisPy => "redis_py",
            Self::NodeRedlock => "node_redlock",
            Self::Curator => "curator",
            Self::EtcdGo => "etcd_go",
        }
    }

    fn command(self) -> io::Result<Command> {
        let built = built().join(self.name());
        match self {
            Self::Rust => Ok(Command::new(beside_the_test("leasehold-peer")?)),
            Self::Redisson => java(&built),
            Self::Redsync | Self::EtcdGo => Ok(Command::new(present(built.join("peer"))?)),
            Self::Curator => curator::command(),
            Self::RedisPy => python(&built),
            Self::NodeRedlock => with("node", &present(built.join("peer.mjs"))?),
        }
    }
}

fn java(built: &Path) -> io::Result<Command> {
    let classes = present(built.join("classes"))?;
    let mut command = Command::new("java");
    let path = format!("{}:{}/lib/*", classes.display(), built.display());
    command.args(["-cp", &path, "leasehold.interop.Peer"]);
    Ok(command)
}

fn python(built: &Path) -> io::Result<Command> {
    let mut command = with("python3", &present(built.join("peer.py"))?)?;
    command.env("PYTHONPATH", built.join("lib")).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn with(program: &str, script: &Path) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.arg(script);
    Ok(command)
}

/// Where `cargo xtask interop` builds the peers.
fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop")
}

fn present(path: PathBuf) -> io::Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    Err(io::Error::other(format!("{} is not built; run `cargo xtask interop`", path.display())))
}

/// Cargo builds the programs of this crate one folder above its tests.
fn beside_the_test(program: &str) -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let mut places = test.ancestors().skip(1).take(2).map(|folder| folder.join(program));
    places
        .find(|place| place.is_file())
        .ok_or_else(|| io::Error::other(format!("{program} is not built")))
}

/// What a peer says of a lock it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The fencing token, if the kind has one.
    pub token: Option<u64>,
    /// When, on the clock that all processes of the host share.
    pub at: Duration,
}

/// What a peer measured: lock and unlock, again and again.
#[derive(Debug, Clone, Copy, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// How many pairs.
    pub ops: u64,
    /// In what time.
    pub seconds: f64,
    /// Half of them took at most this long.
    pub p50_ns: u64,
    /// All but a hundredth took at most this long.
    pub p99_ns: u64,
}

/// A running peer. Dropping it kills the process.
#[derive(Debug)]
pub struct Peer {
    tongue: Tongue,
    child: Child,
    orders: ChildStdin,
    says: Receiver<String>,
}

impl Peer {
    /// Starts one that locks on these servers, `HOST:PORT` each.
    ///
    /// # Errors
    ///
    /// When it is not built or does not get ready.
    pub fn start(tongue: Tongue, servers: &[String]) -> io::Result<Self> {
        let mut command = tongue.command()?;
        command.arg(servers.join(",")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let lines = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
        let (sender, says) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let peer = Self { tongue, child, orders, says };
        peer.hear()?.eq("ready").then_some(()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(peer)
    }

    /// What it speaks.
    #[must_use]
    pub const fn tongue(&self) -> Tongue {
        self.tongue
    }

    /// Asks for a lock; [`Peer::granted`] hears the answer.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn ask(
        &mut self,
        kind: &str,
        name: &str,
        wait: Duration,
        lease: Duration,
    ) -> io::Result<()> {
        self.tell(&format!("lock {kind} {name} {} {}", wait.as_millis(), lease.as_millis()))
    }

    /// The answer to [`Peer::ask`]; `None` if it is busy.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn granted(&self) -> io::Result<Option<Granted>> {
        let line = self.hear()?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["busy"] => Ok(None),
            ["granted", token, at] => Ok(Some(Granted { token: token.parse().ok(), at: ns(at)? })),
            _ => Err(self.odd(&line)),
        }
    }

    /// Locks, and waits at most so long for it.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn lock(
        &mut self,
        kind: &str,
        name: &str,
        wait: Duration,
        lease: Duration,
    ) -> io::Result<Option<Granted>> {
        self.ask(kind, name, wait, lease)?;
        self.granted()
    }

    /// Unlocks: when, or `None` if the lock was lost before.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn unlock(&mut self, kind: &str, name: &str) -> io::Result<Option<Duration>> {
        self.tell(&format!("unlock {kind} {name}"))?;
        let line = self.hear()?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["lost"] => Ok(None),
            ["released", at] => Ok(Some(ns(at)?)),
            _ => Err(self.odd(&line)),
        }
    }

    /// Gives the lock another lease; whether it was still held.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn extend(&mut self, kind: &str, name: &str, lease: Duration) -> io::Result<bool> {
        self.tell(&format!("extend {kind} {name} {}", lease.as_millis()))?;
        match self.hear()?.as_str() {
            "extended" => Ok(true),
            "lost" => Ok(false),
            line => Err(self.odd(line)),
        }
    }

    /// Lets many of its tasks fight for one name; [`Peer::did`] hears the end.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn contend(
        &mut self,
        kind: &str,
        name: &str,
        tasks: usize,
        span: Duration,
    ) -> io::Result<()> {
        self.tell(&format!("contend {kind} {name} {tasks} {}", span.as_millis()))
    }

    /// How often its tasks held the lock, after [`Peer::contend`].
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn did(&self) -> io::Result<u64> {
        let line = self.hear()?;
        let count = line.strip_prefix("did ").and_then(|count| count.parse().ok());
        count.ok_or_else(|| self.odd(&line))
    }

    /// Measures lock and unlock, each task on a name of its own.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn bench(&mut self, kind: &str, tasks: usize, span: Duration) -> io::Result<Measured> {
        self.tell(&format!("bench {kind} {tasks} {}", span.as_millis()))?;
        let line = self.hear()?;
        serde_json::from_str(&line).map_err(|_| self.odd(&line))
    }

    /// The node or key of what it holds.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn node(&mut self, kind: &str, name: &str) -> io::Result<String> {
        self.tell(&format!("node {kind} {name}"))?;
        self.told("node ")
    }

    /// Whether it has been asked to give back what it holds.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn is_asked(&mut self, kind: &str, name: &str) -> io::Result<bool> {
        self.tell(&format!("asked {kind} {name}"))?;
        Ok(self.told("asked ")? == "true")
    }

    /// Lets it ask whoever made the node to give it back.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn ask_back(&mut self, node: &str) -> io::Result<()> {
        self.tell(&format!("ask {node}"))?;
        self.told("done").map(drop)
    }

    /// What it reads of the leader of a latch at this path.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn leader(&mut self, path: &str) -> io::Result<String> {
        self.tell(&format!("leader {path}"))?;
        self.told("leader ")
    }

    /// The session that it has with a ZooKeeper now.
    ///
    /// # Errors
    ///
    /// When it has ended, or something went wrong there.
    pub fn session(&mut self) -> io::Result<i64> {
        self.tell("session")?;
        self.told("session ")?.parse().map_err(io::Error::other)
    }

    /// Stops it in its tracks (SIGSTOP).
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn cont(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// The rest of the answer, which begins like this.
    fn told(&self, start: &str) -> io::Result<String> {
        let line = self.hear()?;
        line.strip_prefix(start).map(str::to_owned).ok_or_else(|| self.odd(&line))
    }

    /// Ends it with SIGKILL and waits for its death.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.orders, "{line}")?;
        self.orders.flush()
    }

    fn hear(&self) -> io::Result<String> {
        let silent = |why| io::Error::other(format!("{} said nothing: {why}", self.tongue.name()));
        self.says.recv_timeout(PATIENCE).map_err(silent)
    }

    fn odd(&self, line: &str) -> io::Error {
        io::Error::other(format!("{} answered {line:?}", self.tongue.name()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A child that has been waited for is left alone by `kill`.
        let _ = self.kill();
    }
}

fn ns(text: &str) -> io::Result<Duration> {
    text.parse().map(Duration::from_nanos).map_err(io::Error::other)
}

/// Now, on the clock that all processes of the host share.
#[must_use]
pub fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
