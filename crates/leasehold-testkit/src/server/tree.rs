//! Signals to a server's whole process tree, by process id.
//!
//! A PostgreSQL backend is a process in a session of its own, which a signal
//! to the first process or its group does not reach.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Sends `signal` to one process; one that is already gone is no error.
pub(super) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    match kill_process(raw, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn signal_all(pids: &[u32], what: Signal) -> io::Result<()> {
    pids.iter().try_for_each(|pid| signal(*pid, what))
}

/// Stops the tree until no process of it is left that could fork another.
pub(super) fn freeze(root: u32) -> io::Result<Vec<u32>> {
    let mut frozen = Vec::new();
    loop {
        let family = family(root)?;
        if family.iter().all(|pid| frozen.contains(pid)) {
            return Ok(family);
        }
        signal_all(&family, Signal::STOP)?;
        wait_until_stopped(&family)?;
        frozen = family;
    }
}

/// The process and all its descendants, parents first.
pub(super) fn family(root: u32) -> io::Result<Vec<u32>> {
    let parents = parents()?;
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        next += 1;
    }
    Ok(family)
}

/// Waits until the processes are gone or only await their reaper.
pub(super) fn wait_until_gone(pids: &[u32], bound: Duration) -> io::Result<()> {
    wait(pids, bound, |state| matches!(state, None | Some('Z' | 'X')))
}

fn wait_until_stopped(pids: &[u32]) -> io::Result<()> {
    // SIGSTOP works at once, but a process deep in the kernel notices it late.
    wait(pids, Duration::from_secs(10), |state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
}

fn wait(pids: &[u32], bound: Duration, done: fn(Option<char>) -> bool) -> io::Result<()> {
    let end = Instant::now() + bound;
    while !pids.iter().all(|pid| done(stat(*pid).map(|(state, _)| state))) {
        if Instant::now() >= end {
            let message = format!("processes {pids:?} ignored a signal");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Every process of the machine with its parent.
fn parents() -> io::Result<Vec<(u32, u32)>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| Some((pid, stat(pid)?.1))).collect())
}

/// State and parent of a process. Its name, in parentheses, may hold anything.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
