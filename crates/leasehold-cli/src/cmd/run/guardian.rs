//! The guardian: a small process between a `leasehold` and the command it runs.
//!
//! It starts the command, and is the ancestor of all that comes of it. When the
//! `leasehold` is gone, or has not said for too long that the lease is still
//! good, it kills everything below it. It keeps the lifelines of the lease
//! meanwhile: a lease that is free as soon as its holder has died is not free
//! before that is done.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::{Clock, Moment};
use rustix::process::{Pid, Signal};
use tokio::time::sleep;

use super::child::{Life, id_of, life, own_binary};
use super::tree;
use super::wire::{Wire, Word, take_over};
use crate::args::{Guard, START};
use crate::failure::{Failure, INTERNAL};
use crate::signals::Signals;

/// The longest nap: timers stand still while the machine is suspended.
const NAP: Duration = Duration::from_millis(500);
/// The naps between two blows; they grow.
const FIRST_NAP: Duration = Duration::from_millis(1);

pub(crate) async fn guard(args: &Guard) -> Result<u8, Failure> {
    // What is meant for the command must not end its guardian.
    let mut signals = Signals::listen()?;
    signals.hear_children()?;
    tree::adopt();
    let cannot = |cause: io::Error| Failure::internal(cause.to_string());
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?);
    let files = take_over(&stream).map_err(cannot)?;
    let mut wire = Wire::new(stream).map_err(cannot)?;
    // Nothing is begun for one who is gone, or too late.
    let Some(Word::KillAt(latest)) = wire.hear().await else { return Ok(INTERNAL) };
    if Clock::System.now() >= latest {
        wire.say(Word::Doomed);
        return Ok(INTERNAL);
    }
    Ok(match start(args, files) {
        Ok((ward, lifelines)) => {
            let code = Guardian::new(ward, wire, args.leave, latest).watch(&mut signals).await;
            // Only now may others take the lease for that of a dead process.
            drop(lifelines);
            code
        }
        Err(cause) => {
            wire.say(Word::Failed(cause.raw_os_error().unwrap_or_default()));
            INTERNAL
        }
    })
}

/// Starts the command on the first three files; the others are lifelines.
fn start(args: &Guard, files: Vec<OwnedFd>) -> io::Result<(Pid, Vec<OwnedFd>)> {
    let mut files = files.into_iter();
    let mut starter = starter(&args.command, !args.leave);
    let mut stream = || files.next().map_or_else(Stdio::null, Stdio::from);
    starter.stdin(stream()).stdout(stream()).stderr(stream());
    Ok((id_of(&starter.spawn()?)?, files.collect()))
}

fn starter(command: &[OsString], tethered: bool) -> Command {
    let mut starter = Command::new(own_binary());
    starter.arg(START);
    if tethered {
        starter.arg("--tether").arg(std::process::id().to_string());
    }
    starter.arg("--").args(command).process_group(0);
    starter
}

struct Guardian {
    ward: Pid,
    wire: Wire,
    /// Whether the command may outlive its `leasehold`.
    leave: bool,
    kill_at: Moment,
    doomed: bool,
    alone: bool,
}

impl Guardian {
    const fn new(ward: Pid, wire: Wire, leave: bool, kill_at: Moment) -> Self {
        Self { ward, wire, leave, kill_at, doomed: false, alone: false }
    }

    async fn watch(mut self, signals: &mut Signals) -> u8 {
        self.wire.say(Word::Started(self.ward.as_raw_nonzero().get()));
        loop {
            self.reap();
            if self.is_told_to_leave() {
                return 0;
            }
            if self.wire.is_cut() {
                return self.left_behind();
            }
            self.kill_in_time();
            let nap = self.nap();
            tokio::select! {
                () = self.wire.changed() => {}
                _ = signals.next() => {}
                () = sleep(nap) => {}
            }
        }
    }

    /// All words that are there: a moment that was put off is not one to act on.
    fn is_told_to_leave(&mut self) -> bool {
        while let Some(word) = self.wire.hear_now() {
            match word {
                Word::KillAt(moment) => self.kill_at = moment,
                Word::Leave => return true,
                _ => {}
            }
        }
        false
    }

    /// Fetches those who have ended, orphans too, and tells of the command.
    fn reap(&mut self) {
        while !self.alone {
            match tree::next_change() {
                Ok(Some((id, status))) if id == self.ward => match life(status) {
                    Life::Stopped(signal) => self.wire.say(Word::Stopped(signal)),
                    Life::Ended(code) => self.wire.say(Word::Ended(code)),
                    _ => {}
                },
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(()) => {
                    self.alone = true;
                    self.wire.say(Word::Alone);
                }
            }
        }
    }

    fn kill_in_time(&mut self) {
        if self.alone || Clock::System.now() < self.kill_at {
            return;
        }
        if !std::mem::replace(&mut self.doomed, true) {
            self.wire.say(Word::Doomed);
        }
        tree::signal(self.ward, None, Signal::KILL);
    }

    fn nap(&self) -> Duration {
        let due = self.kill_at.since(Clock::System.now());
        due.clamp(Duration::from_millis(5), NAP)
    }

    /// The `leasehold` has gone without a word. Nothing of the command may go on.
    fn left_behind(mut self) -> u8 {
        let mut nap = FIRST_NAP;
        while !self.leave && !self.alone {
            tree::signal(self.ward, None, Signal::KILL);
            std::thread::sleep(nap);
            nap = NAP.min(nap * 2);
            self.reap();
        }
        0
    }
}
