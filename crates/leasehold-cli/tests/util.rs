//! A world of its own for each test: a folder, an engine in it, and commands.

use std::fs::{self, File};
use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::with_prefix("leasehold-cli-").unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn engine(&self) -> String {
        format!("sqlite:{}", self.path("locks.db").display())
    }

    /// `leasehold ARGS...` on this world's engine.
    pub(crate) fn leasehold(&self, args: &[&str]) -> TestCommand {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.args(args);
        self.command(command)
    }

    /// Any command, in this world's folder and with its engine. Whatever was
    /// ignored when the tests were started (by a script, with `&`) is not by it.
    pub(crate) fn command(&self, command: Command) -> TestCommand {
        let mut fresh = Command::new("env");
        fresh.arg("--default-signal").arg(command.get_program()).args(command.get_args());
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        fresh.envs(variables);
        let mut command = fresh;
        command.current_dir(self.dir.path()).env("LEASEHOLD_ENGINE", self.engine());
        command.stdin(Stdio::null());
        TestCommand { command, outputs: TempDir::new_in(self.dir.path()).unwrap() }
    }

    /// `leasehold run OPTIONS -- sh -c SCRIPT`.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> TestCommand {
        self.leasehold(&[&["run"], options, &["--", "sh", "-c", script]].concat())
    }

    /// A run that has the lock, and keeps it until it is told to go.
    pub(crate) fn holder(&self, options: &[&str]) -> Holder<'_> {
        let running = self.run(options, HOLD).start();
        eventually("the holder runs", || self.path("held").exists());
        fs::remove_file(self.path("held")).unwrap();
        Holder { world: self, running }
    }

    pub(crate) fn show(&self, name: &str) -> Value {
        self.leasehold(&["show", name, "--json"]).json()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The number in a file, once somebody has written it.
    pub(crate) fn pid_in(&self, name: &str) -> i32 {
        let read = || self.read(name).trim().parse().ok();
        eventually(name, || read().is_some());
        read().unwrap()
    }

    /// Nobody is served by the engine as long as this is kept: writers queue
    /// at this file (docs/engines/sqlite.md).
    pub(crate) fn block_engine(&self) -> File {
        let gate = File::open(self.path("locks.db-gate")).unwrap();
        gate.lock().unwrap();
        gate
    }

    pub(crate) fn touch(&self, name: &str) {
        File::create(self.path(name)).unwrap();
    }
}

/// Whatever a test has started runs in its folder. Nothing of it stays, not
/// even if the test fails half way.
impl Drop for World {
    fn drop(&mut self) {
        let here = self.dir.path();
        let is_here =
            |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == here);
        let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|it| it.file_name());
        let pids = names.filter_map(|name| name.to_str()?.parse().ok());
        for pid in pids.filter(is_here).filter_map(Pid::from_raw) {
            // It may just have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

const HOLD: &str = "echo $$ >pid; : >held; while [ ! -e go ]; do sleep 0.02; done; rm go";

pub(crate) struct Holder<'a> {
    world: &'a World,
    pub(crate) running: Running,
}

impl Holder<'_> {
    /// Lets the command end by itself.
    pub(crate) fn finish(self) -> Outcome {
        self.world.touch("go");
        self.running.wait()
    }

    pub(crate) fn wait(self) -> Outcome {
        self.running.wait()
    }
}

pub(crate) struct TestCommand {
    command: Command,
    outputs: TempDir,
}

impl TestCommand {
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<Path>) -> Self {
        self.command.env(key, value.as_ref());
        self
    }

    pub(crate) fn without_env(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    pub(crate) fn input(mut self, text: &str) -> Self {
        let path = self.outputs.path().join("in");
        fs::write(&path, text).unwrap();
        self.command.stdin(File::open(path).unwrap());
        self
    }

    /// The command reads what the keyboard types.
    pub(crate) fn with_keyboard(mut self) -> (Self, Keyboard) {
        let (reader, writer) = std::io::pipe().unwrap();
        self.command.stdin(reader);
        (self, Keyboard(writer))
    }

    /// Output goes to files, so that nobody who inherits it can block a test.
    pub(crate) fn start(mut self) -> Running {
        let file = |name| File::create(self.outputs.path().join(name)).unwrap();
        let child = self.command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        Running { child, outputs: self.outputs }
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.start().wait()
    }

    /// What a command that must succeed prints.
    pub(crate) fn stdout(self) -> String {
        self.outcome().expect_code(0).out
    }

    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.stdout()).unwrap()
    }
}

pub(crate) struct Keyboard(PipeWriter);

impl Keyboard {
    pub(crate) fn type_in(&self, keys: &str) {
        (&self.0).write_all(keys.as_bytes()).unwrap();
    }
}

/// A started command; killed by its pid if the test forgets it.
pub(crate) struct Running {
    child: Child,
    outputs: TempDir,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        send(i32::try_from(self.child.id()).unwrap(), signal);
    }

    pub(crate) fn err(&self) -> String {
        fs::read_to_string(self.outputs.path().join("err")).unwrap()
    }

    pub(crate) fn out(&self) -> String {
        fs::read_to_string(self.outputs.path().join("out")).unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(mut self) -> Outcome {
        eventually("the command ends", || self.has_ended());
        let code = self.child.wait().unwrap().code();
        Outcome { code, out: self.out(), err: self.err() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// One line on standard error that says this.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text), "{text:?} is not in {self:?}");
        assert!(self.err.lines().all(|line| line.starts_with("leasehold: ")), "{self:?}");
        self
    }
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Whether a process lives; one that has ended but was not fetched does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The guardian above a command: the parent of its first process.
pub(crate) fn guardian_of(child: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

/// Whether the group of a process is in the foreground of its terminal.
pub(crate) fn is_in_front(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    // State, parent, group, session, terminal, group in its foreground.
    rest.get(2).is_some_and(|group| rest.get(5) == Some(group))
}

/// The state letter of `ps`.
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}
