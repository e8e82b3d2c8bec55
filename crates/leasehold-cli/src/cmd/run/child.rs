//! The command as a process group of its own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group,
    waitid,
};

use crate::args::{START, Start};
use crate::failure::{Failure, INTERNAL, NOT_EXECUTABLE, NOT_FOUND};

/// A command that was started.
pub(crate) struct Child {
    /// The id of the process, which is that of its group.
    group: Pid,
}

/// What has become of a child since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nothing.
    Same,
    /// It was stopped by this signal.
    Stopped(i32),
    /// It has ended, with this exit code.
    Ended(u8),
}

impl Child {
    /// Starts `command`. With a tether it does not outlive this process.
    pub(crate) fn spawn(
        command: &[OsString],
        environment: impl IntoIterator<Item = (&'static str, String)>,
        tethered: bool,
    ) -> Result<Self, Failure> {
        let mut starter = Command::new(own_binary());
        starter.arg(START);
        if tethered {
            starter.arg("--tether").arg(std::process::id().to_string());
        }
        starter.arg("--").args(command).envs(environment).process_group(0);
        let started = starter.spawn().map_err(|cause| not_started(&cause))?;
        let id = i32::try_from(started.id()).ok().and_then(Pid::from_raw);
        Ok(Self { group: id.ok_or_else(|| Failure::internal("a child without an id"))? })
    }

    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    /// Looks what has become of it. An end is told once.
    pub(crate) fn look(&self) -> Life {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.group), options) {
            Ok(Some(status)) => life(&status),
            Ok(None) | Err(Errno::INTR) => Life::Same,
            Err(_) => Life::Ended(INTERNAL),
        }
    }

    /// Sends a signal to the whole group; one that has gone needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Whether nothing of the group is left, once its leader has ended.
    pub(crate) fn is_gone(&self) -> bool {
        test_kill_process_group(self.group) == Err(Errno::SRCH)
    }
}

fn life(status: &WaitIdStatus) -> Life {
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
