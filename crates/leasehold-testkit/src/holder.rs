//! A process that holds locks and can be killed.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How long to wait for what a holder must say or do.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a holder is told when it starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Orders {
    /// The engine.
    pub url: String,
    /// The name to lock.
    pub name: String,
    /// The ttl of its leases.
    pub ttl: Duration,
    /// What others see as the holder.
    pub label: String,
    /// How often it locks.
    pub rounds: u32,
    /// How many of its tasks do so at the same time.
    pub tasks: u32,
    /// Whether it queues for itself, in order of arrival.
    pub fair: bool,
    /// What it does while it holds.
    pub hold: Hold,
    /// How a round, or the process, ends.
    pub end: End,
    /// Where it records what it does.
    pub history: Option<PathBuf>,
    /// A fenced register that it adds to while it holds.
    pub register: Option<PathBuf>,
}

/// What a holder does while it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// Nothing.
    Moment,
    /// It sleeps.
    For(Duration),
    /// It waits for [`Holder::go`].
    UntilTold,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Each round releases.
    Release,
    /// The guard is dropped as `main` ends.
    Main,
    /// The process exits while it holds.
    Exit,
    /// Each round releases; at the end it reports its threads and sockets.
    Report,
}

impl Orders {
    /// Locks `name` once, for an hour at most, and releases it.
    #[must_use]
    pub fn new(url: &str, name: &str) -> Self {
        Self {
            url: url.to_owned(),
            name: name.to_owned(),
            ttl: Duration::from_secs(3600),
            label: "holder".to_owned(),
            rounds: 1,
            tasks: 1,
            fair: false,
            hold: Hold::Moment,
            end: End::Release,
            history: None,
            register: None,
        }
    }

    /// With this ttl.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// With this label.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// So many times.
    #[must_use]
    pub const fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// By so many tasks at the same time; none of them can be told to go on.
    #[must_use]
    pub const fn tasks(mut self, tasks: u32) -> Self {
        self.tasks = tasks;
        self
    }

    /// In exact order of arrival.
    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Doing this while it holds.
    #[must_use]
    pub const fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// Ending like this.
    #[must_use]
    pub const fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Recording what it does.
    #[must_use]
    pub fn history(mut self, path: impl Into<PathBuf>) -> Self {
        self.history = Some(path.into());
        self
    }

    /// Adding to this register while it holds.
    #[must_use]
    pub fn register(mut self, path: impl Into<PathBuf>) -> Self {
        self.register = Some(path.into());
        self
    }
}

/// The handle on a holder. Dropping it kills the process.
///
/// It says, a line each: `clock SECONDS` as it starts, `asking`, `granted FENCE`, `held` or `lost` on its
/// first look after the hold, `accepted` or `refused` by the register,
/// `released` or `already lost`, and `left ..` at the very end.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    orders: Option<ChildStdin>,
    says: Receiver<String>,
}

impl Holder {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// When the program is not there or cannot be started.
    pub fn spawn(orders: Orders) -> io::Result<Self> {
        Self::spawn_with(orders, [])
    }

    /// Starts one with these variables in its environment.
    ///
    /// # Errors
    ///
    /// When the program is not there or cannot be started.
    pub fn spawn_with<I>(orders: Orders, variables: I) -> io::Result<Self>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let mut command = Command::new(program()?);
        command.envs(variables);
        command.arg(serde_json::to_string(&orders)?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (sender, says) = channel();
        let lines = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { orders: child.stdin.take(), child, says })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The rest of the next line that starts with `start`; others are skipped.
    ///
    /// # Errors
    ///
    /// When it does not say so within a minute, or has ended.
    pub fn until(&mut self, start: &str) -> io::Result<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.says.recv_timeout(left).map_err(|why| {
                io::Error::other(format!("holder {} never said {start:?}: {why}", self.pid()))
            })?;
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// Waits until it holds the name; its fence.
    ///
    /// # Errors
    ///
    /// When it does not get it within a minute.
    pub fn granted(&mut self) -> io::Result<u64> {
        self.until("granted ")?.parse().map_err(io::Error::other)
    }

    /// Tells it to go on.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn go(&mut self) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(b"go\n")?;
        orders.flush()
    }

    /// Ends it with SIGKILL and waits for its death.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Stops it with SIGSTOP.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Holder::stop`].
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn cont(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When it ended with a failure, or does not end within a minute.
    pub fn wait(&mut self) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(io::Error::other(format!("holder: {status}"))),
                None if Instant::now() > end => return Err(io::ErrorKind::TimedOut.into()),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Whether it has ended by itself; a failure is an error.
    ///
    /// # Errors
    ///
    /// When it ended with a failure.
    pub fn is_done(&mut self) -> io::Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(io::Error::other(format!("holder {}: {status}", self.pid()))),
        }
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A child that has been waited for is left alone by `kill`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Cargo builds it beside the tests of this crate.
fn program() -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("leasehold-holder"));
    places.find(|place| place.is_file()).ok_or_else(|| {
        io::Error::other("leasehold-holder is not built; run the tests of leasehold-testkit")
    })
}
