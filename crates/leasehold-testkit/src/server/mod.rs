//! Real servers on free loopback ports in temporary folders.
//!
//! A [`Server`] is a process tree that a test may stop, kill, pause and start
//! again at the same address with the same data. It ends with its value, and
//! also when the test process itself is killed.

mod account;
mod binary;
mod certificates;
mod database;
mod ensemble;
mod etcd;
mod fleet;
mod galera;
mod mariadb;
mod member;
mod pair;
mod pgbouncer;
mod plan;
mod postgres;
mod redis;
mod spawn;
mod tree;
mod zookeeper;

pub use database::tell;
pub use ensemble::Ensemble;
pub use fleet::{Fleet, ask};
pub use galera::Galera;
pub use pair::Pair;
pub use plan::Plan;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use member::Member;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::folder::quick_folder;

/// How long a server may take to answer. Generous: a busy two-core machine is
/// slow, and a server that answers sooner ends the wait.
const READY: Duration = Duration::from_secs(60);
/// How long a server may take to end politely before it is killed.
const POLITE: Duration = Duration::from_secs(20);
/// How often a wait looks again.
const TICK: Duration = Duration::from_millis(10);
/// A free port can be taken by someone else before the server binds it.
const ATTEMPTS: u32 = 5;
/// How much of the log an error shows.
const TAIL_LINES: usize = 25;

/// Starts what takes several ports at once; somebody may have taken one of them.
fn several<T>(start: impl Fn() -> Result<T, ServerError>) -> Result<T, ServerError> {
    let mut attempt = start();
    for _ in 1..ATTEMPTS {
        if attempt.is_ok() {
            break;
        }
        attempt = start();
    }
    attempt
}

/// Why a server could not be used. The text says what to do next.
#[derive(Debug)]
pub struct ServerError(String);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// One real server: a process tree, its ports and its folder.
#[derive(Debug)]
pub struct Server {
    plan: Plan,
    folder: TempDir,
    ports: Vec<u16>,
    child: Option<Child>,
}

impl Server {
    /// Starts a Redis that keeps nothing on disk.
    ///
    /// # Errors
    ///
    /// When `redis-server` is missing (names the package) or does not get ready.
    pub fn redis() -> Result<Self, ServerError> {
        Self::start(Plan::redis())
    }

    /// Starts a PostgreSQL with one superuser `postgres` who needs no password.
    ///
    /// # Errors
    ///
    /// When PostgreSQL is missing (names the package) or does not get ready.
    pub fn postgres() -> Result<Self, ServerError> {
        Self::start(Plan::postgres())
    }

    /// Starts a MariaDB with one superuser `root` who needs no password, and a
    /// database `leasehold`.
    ///
    /// # Errors
    ///
    /// When MariaDB is missing (names the package) or does not get ready.
    pub fn mariadb() -> Result<Self, ServerError> {
        Self::start(Plan::mariadb())
    }

    /// Starts an etcd cluster of one node.
    ///
    /// # Errors
    ///
    /// When `etcd` is missing (names the package) or does not get ready.
    pub fn etcd() -> Result<Self, ServerError> {
        Self::start(Plan::etcd())
    }

    /// Starts a ZooKeeper of one server.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is missing (names the package) or does not get ready.
    pub fn zookeeper() -> Result<Self, ServerError> {
        Self::start(Plan::zookeeper())
    }

    /// Starts the server that `plan` describes and waits until it answers.
    ///
    /// # Errors
    ///
    /// When its binary is missing (names the package) or it does not get ready
    /// (shows the end of its log).
    pub fn start(plan: Plan) -> Result<Self, ServerError> {
        let folder = quick_folder()?;
        let mut server = Self { plan, folder, ports: Vec::new(), child: None };
        server.plan.prepare(server.folder.path())?;
        server.launch(true)?;
        server.plan.settle(server.addr(), server.folder())?;
        Ok(server)
    }

    /// A member of an ensemble, which does not run yet.
    fn member(plan: Plan, member: Member) -> Result<Self, ServerError> {
        let folder = quick_folder()?;
        let ports = member.ports[member.at].clone();
        let plan = plan.member(member);
        plan.prepare(folder.path())?;
        Ok(Self { plan, folder, ports, child: None })
    }

    /// Runs a statement on a PostgreSQL or MariaDB with its own client, and gives
    /// back the rows as text.
    ///
    /// # Errors
    ///
    /// When the client is missing, or the server refuses.
    pub fn sql(&self, statement: &str) -> Result<String, ServerError> {
        self.plan.sql(self.addr(), statement)
    }

    /// Sends a ZooKeeper one of its words of four letters, such as `srvr`, and
    /// gives back the answer.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub fn say(&self, word: &str) -> Result<String, ServerError> {
        self.plan.say(&self.ports, word)
    }

    /// Whether this ZooKeeper or etcd leads its ensemble now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.plan.leads(self.addr(), &self.ports, self.folder())
    }

    /// Runs `etcdctl` on an etcd with these words, and gives back what it says.
    ///
    /// # Errors
    ///
    /// When it is not installed, or fails.
    pub fn tell(&self, words: &[&str]) -> Result<String, ServerError> {
        self.plan.tell(self.addr(), self.folder(), words)
    }

    /// `etcdctl` for this etcd, before its first word. It dies with this process.
    ///
    /// # Errors
    ///
    /// When it is not installed.
    pub fn etcdctl(&self) -> Result<Command, ServerError> {
        self.etcdctl_at(&self.addr().to_string())
    }

    fn etcdctl_at(&self, hosts: &str) -> Result<Command, ServerError> {
        self.plan.etcdctl(hosts, self.folder())
    }

    /// The process id of the server's first process.
    ///
    /// # Panics
    ///
    /// When the server was stopped or killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server is not running").id()
    }

    /// The port clients connect to; it stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// The loopback address clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    /// The URL under which Leasehold opens this server.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_via(self.addr())
    }

    /// The URL of the same server behind `addr`, usually that of a fault proxy.
    #[must_use]
    pub fn url_via(&self, addr: SocketAddr) -> String {
        self.plan.url(addr, self.folder())
    }

    /// The URL of a Redis by its unix socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        self.plan.socket_url(self.folder())
    }

    /// The folder that holds the server's data and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's log, over all its restarts.
    #[must_use]
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The last lines of the server's log, over all its restarts.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// Says whether the server's first process is alive (a paused one is).
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Says whether the server answers a request of its own protocol now.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.plan.is_ready(&self.ports)
    }

    /// Ends the server politely; kills it if it does not end in time.
    ///
    /// # Errors
    ///
    /// When the process cannot be signalled or reaped.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        let Some(child) = self.child.as_mut() else { return Ok(()) };
        if child.try_wait()?.is_none() {
            tree::signal(child.id(), self.plan.stop_signal())?;
            // A paused process gets its signal only once it runs again.
            self.resume()?;
        }
        match self.exit_within(POLITE)? {
            Some(_) => self.child = None,
            None => self.kill()?,
        }
        Ok(())
    }

    /// Kills the whole process tree at once, as a power cut would.
    ///
    /// # Errors
    ///
    /// When a process cannot be signalled or reaped.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let mut family = Vec::new();
        if child.try_wait()?.is_none() {
            family = tree::freeze(child.id())?;
            tree::signal_all(&family, Signal::KILL)?;
        }
        child.wait()?;
        family.retain(|pid| *pid != child.id());
        tree::wait_until_gone(&family, POLITE)?;
        Ok(())
    }

    /// Stops the whole process tree in its tracks (SIGSTOP); connections stay.
    ///
    /// # Errors
    ///
    /// When a process cannot be signalled.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        tree::freeze(self.pid())?;
        Ok(())
    }

    /// Lets a paused process tree go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When a process cannot be signalled.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        Ok(tree::signal_all(&tree::family(self.pid())?, Signal::CONT)?)
    }

    /// Starts the server again, with the same ports and folder. A server that
    /// still runs is stopped first.
    ///
    /// # Errors
    ///
    /// When it cannot be stopped, or does not get ready.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        self.launch(false)
    }

    /// The same, with more arguments from now on.
    ///
    /// # Errors
    ///
    /// When it cannot be stopped, or does not get ready.
    pub fn restart_with(&mut self, args: &[&str]) -> Result<(), ServerError> {
        self.plan = self.plan.clone().args(args.iter().copied());
        self.restart()
    }

    /// Spawns until the server is ready; a server that ends at once (port
    /// taken, old process not quite gone) is tried again.
    fn launch(&mut self, fresh_ports: bool) -> Result<(), ServerError> {
        for _ in 0..ATTEMPTS {
            if fresh_ports {
                self.ports = free_ports(self.plan.ports())?;
            }
            self.spawn()?;
            if self.ready_within(READY)? {
                return Ok(());
            }
            thread::sleep(20 * TICK);
        }
        Err(self.failure("ended before it was ready, each time it was started"))
    }

    fn spawn(&mut self) -> Result<(), ServerError> {
        let log = self.log()?;
        let mut command = self.plan.command(self.folder.path(), &self.ports)?;
        command.stdout(log.try_clone()?).stderr(log);
        self.child = Some(spawn::spawn(command)?);
        Ok(())
    }

    /// True when ready, false when the process ended, an error when neither.
    fn ready_within(&mut self, bound: Duration) -> Result<bool, ServerError> {
        let end = Instant::now() + bound;
        while Instant::now() < end {
            if !self.is_running() {
                return Ok(false);
            }
            // Asked in this order, a stranger on our port cannot pass for us:
            // with the port taken, our own process ends.
            if self.answers() && self.is_running() {
                return Ok(true);
            }
            thread::sleep(TICK);
        }
        let failure = self.failure("did not get ready in time");
        self.kill()?;
        Err(failure)
    }

    fn exit_within(&mut self, bound: Duration) -> Result<Option<ExitStatus>, ServerError> {
        let end = Instant::now() + bound;
        loop {
            let status = self.child.as_mut().expect("checked by the caller").try_wait()?;
            if status.is_some() || Instant::now() >= end {
                return Ok(status);
            }
            thread::sleep(TICK);
        }
    }

    fn failure(&self, what: &str) -> ServerError {
        let (name, log) = (self.plan.name(), self.log_tail());
        ServerError(format!("{name} {what}; the end of its log:\n{log}"))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn log(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(self.log_path())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the parent-death signal in
        // spawn.rs is the second net.
        if self.stop().is_err() {
            let _ = self.kill();
        }
        let _ = remove_remains(self.folder.path());
    }
}

/// Removes what a dead server left: its folder, and the shared memory of a
/// PostgreSQL that was killed. A [`Server`] does so itself; this is for one
/// whose test process was killed with it.
///
/// # Errors
///
/// When the folder or the shared memory cannot be removed.
pub fn remove_remains(folder: &Path) -> io::Result<()> {
    if let Some(segment) = postgres::shared_memory(folder) {
        Command::new("ipcrm").args(["-m", &segment]).output()?;
    }
    fs::remove_dir_all(folder)
}

/// Ports that are free now. All are bound at once so that they differ.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
