//! The command as a process group of its own, with a guardian above it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use leasehold::{Clock, Moment};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group, test_kill_process_group};

use super::tree;
use super::wire::{Wire, Word, hand_over};
use crate::args::{GUARD, Start};
use crate::failure::{Failure, INTERNAL, LOST, NOT_EXECUTABLE, NOT_FOUND};

/// How long to wait for a guardian that ends what is left.
const LAST_BLOWS: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(1);

/// A command that was started.
pub(crate) struct Child {
    /// The id of the process, which is that of its group.
    group: Pid,
    guardian: Pid,
    wire: Wire,
    told: Moment,
    ended: bool,
    alone: bool,
    left: bool,
}

/// What has become of a child since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nothing.
    Same,
    /// It was stopped by this signal.
    Stopped(i32),
    /// Its guardian kills it, because we were late.
    Doomed,
    /// It has ended, with this exit code.
    Ended(u8),
}

/// Standard input, output and error of a command.
pub(crate) struct Streams(pub(crate) [OwnedFd; 3]);

impl Streams {
    /// Our own.
    pub(crate) fn inherited() -> Result<Self, Failure> {
        let [input, output, error] = [copy(io::stdin()), copy(io::stdout()), copy(io::stderr())];
        Ok(Self([input?, output?, error?]))
    }

    /// Our own input, and these two.
    pub(crate) fn with_outputs(output: OwnedFd, error: OwnedFd) -> Result<Self, Failure> {
        Ok(Self([copy(io::stdin())?, output, error]))
    }
}

/// One that is closed is as good as an empty one.
fn copy(stream: impl AsFd) -> Result<OwnedFd, Failure> {
    let empty = || Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into());
    let copied = stream.as_fd().try_clone_to_owned().or_else(|_| empty());
    copied.map_err(|cause| not_started(&cause))
}

impl Child {
    /// Starts `command`, which must have ended at `latest`, unless the guardian
    /// hears otherwise; nothing of it outlives this process. Without a `latest`
    /// it goes on for as long as it likes.
    pub(crate) async fn spawn(
        command: &[OsString],
        environment: impl IntoIterator<Item = (&'static str, String)>,
        streams: Streams,
        latest: Option<Moment>,
    ) -> Result<Self, Failure> {
        let tethered = latest.is_some();
        // If the guardian dies, what it had below it comes to us.
        tree::adopt();
        let (near, far) = UnixStream::pair().map_err(|cause| not_started(&cause))?;
        let guardian = Self::guardian(command, environment, far, tethered)?;
        let lifelines = if tethered { leasehold::lifelines() } else { Vec::new() };
        let files = streams.0.iter().chain(&lifelines).map(AsFd::as_fd);
        let handed = hand_over(&near, &files.collect::<Vec<BorrowedFd<'_>>>());
        drop(streams);
        let wire = handed.and_then(|()| Wire::new(near)).map_err(|cause| not_started(&cause))?;
        let told = latest.unwrap_or(Moment::NEVER);
        wire.say(Word::KillAt(told));
        let (ended, alone, left) = (false, false, false);
        Self { group: guardian, guardian, wire, told, ended, alone, left }.started().await
    }

    /// A process of its own group, so that no keyboard reaches it.
    fn guardian(
        command: &[OsString],
        environment: impl IntoIterator<Item = (&'static str, String)>,
        wire: UnixStream,
        tethered: bool,
    ) -> Result<Pid, Failure> {
        let mut starter = Command::new(own_binary());
        starter.arg(GUARD);
        if !tethered {
            starter.arg("--leave");
        }
        starter.arg("--").args(command).envs(environment).process_group(0);
        starter.stdin(OwnedFd::from(wire)).stdout(Stdio::null()).stderr(Stdio::null());
        starter.spawn().and_then(|guardian| id_of(&guardian)).map_err(|cause| not_started(&cause))
    }

    /// If the guardian dies before it has told us of the command, that may run
    /// all the same; `drop` ends it.
    async fn started(mut self) -> Result<Self, Failure> {
        match self.wire.hear().await {
            Some(Word::Started(id)) => {
                self.group = Pid::from_raw(id).unwrap_or(self.group);
                Ok(self)
            }
            Some(Word::Doomed) => {
                let why = "the lease ran out before the command could be started";
                Err(Failure::new(LOST, why))
            }
            Some(Word::Failed(code)) => Err(not_started(&io::Error::from_raw_os_error(code))),
            _ => Err(Failure::internal("the guardian of the command has died")),
        }
    }

    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    /// Looks what has become of it. An end is told once.
    pub(crate) fn look(&mut self) -> Life {
        loop {
            match self.wire.hear_now() {
                Some(Word::Stopped(signal)) => return Life::Stopped(signal),
                Some(Word::Ended(code)) => return self.end(code),
                Some(Word::Doomed) => return Life::Doomed,
                Some(Word::Alone) => self.alone = true,
                Some(_) => {}
                None if self.wire.is_cut() => return self.look_for_ourselves(),
                None => return Life::Same,
            }
        }
    }

    fn end(&mut self, code: u8) -> Life {
        self.ended = true;
        Life::Ended(code)
    }

    /// Without a guardian the command is our own child, where orphans can be
    /// adopted; elsewhere nobody will ever know how it ended.
    fn look_for_ourselves(&mut self) -> Life {
        while !self.alone {
            match tree::next_change() {
                Ok(Some((id, status))) if id == self.group => match life(status) {
                    Life::Ended(code) => return self.end(code),
                    change => return change,
                },
                Ok(Some(_)) => {}
                Ok(None) => return Life::Same,
                Err(()) => self.alone = true,
            }
        }
        if self.ended { Life::Same } else { self.end(INTERNAL) }
    }

    /// Resolves when it is time to look.
    pub(crate) async fn changed(&mut self) {
        self.wire.changed().await;
    }

    /// Has the guardian kill everything at `moment`, unless it hears otherwise.
    pub(crate) fn kill_at(&mut self, moment: Moment) {
        if self.told != moment {
            self.told = moment;
            self.wire.say(Word::KillAt(moment));
        }
    }

    /// Whether the guardian has died.
    pub(crate) const fn is_unguarded(&self) -> bool {
        self.wire.is_cut()
    }

    /// Sends a signal to the whole group; one that has gone needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Sends a signal to the group, and to those who have left it.
    pub(crate) fn signal_all(&self, signal: Signal) {
        if !self.alone {
            tree::signal(self.group, Some(self.guardian), signal);
        }
    }

    /// Whether nothing of it is left, once it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.alone && test_kill_process_group(self.group) == Err(Errno::SRCH)
    }

    /// What it leaves in the background may go on without us.
    pub(crate) fn leave(&mut self) {
        self.left = true;
        self.wire.say(Word::Leave);
    }
}

/// Nothing of the command goes on, unless it was left.
impl Drop for Child {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let until = Clock::System.now().after(LAST_BLOWS);
        self.kill_at(Moment::default());
        while !self.alone && Clock::System.now() < until {
            self.signal_all(Signal::KILL);
            let _ = self.look();
            sleep(SHORT);
        }
    }
}

pub(crate) fn id_of(child: &std::process::Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("a child without an id"))
}

pub(crate) fn life(status: WaitStatus) -> Life {
    let low_byte = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal(), status.stopping_signal()) {
        (Some(code), _, _) => Life::Ended(low_byte(code)),
        (_, Some(signal), _) => Life::Ended(low_byte(128 + signal)),
        (_, _, Some(signal)) => Life::Stopped(signal),
        _ => Life::Same,
    }
}

/// This very program, even if its file was replaced meanwhile.
pub(crate) fn own_binary() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { running } else { std::env::current_exe().unwrap_or(running) }
}

fn not_started(cause: &io::Error) -> Failure {
    Failure::internal(format!("cannot start a process: {cause}"))
}

/// Becomes the command; comes back only if that fails.
pub(crate) fn start(args: &Start) -> Failure {
    if let Some(parent) = args.tether
        && let Err(failure) = tether(parent)
    {
        return failure;
    }
    let program = &args.command[0];
    let cause = Command::new(program).args(&args.command[1..]).exec();
    match cause.kind() {
        io::ErrorKind::NotFound => Failure::new(
            NOT_FOUND,
            format!("cannot run {program:?}: not found; check its name and PATH"),
        ),
        _ => Failure::new(NOT_EXECUTABLE, format!("cannot run {program:?}: {cause}")),
    }
}

/// Has the kernel kill this process when `parent` ends, however it ends: a
/// lock whose holder is dead is free, so its command must not go on.
#[cfg(target_os = "linux")]
fn tether(parent: u32) -> Result<(), Failure> {
    use rustix::process::{getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|cause| Failure::internal(format!("cannot tie the command to us: {cause}")))?;
    // It may have ended just before.
    let alive = getppid().is_some_and(|now| now.as_raw_nonzero().get().unsigned_abs() == parent);
    if alive { Ok(()) } else { Err(Failure::silent(INTERNAL)) }
}

#[cfg(not(target_os = "linux"))]
fn tether(_parent: u32) -> Result<(), Failure> {
    Ok(())
}
