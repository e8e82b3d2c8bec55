//! Signals: which are passed on to the command, and which end the wait.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// Passed on to the command, and caught from the start.
const PASSED_ON: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Caught once there is a child; while we wait they do what they always do.
const FOR_CHILDREN: [Signal; 3] = [Signal::CHILD, Signal::TSTP, Signal::CONT];

/// The signals this process has asked to hear.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut signals = Self(Vec::new());
        let ignored = ignored();
        let heard = PASSED_ON.into_iter().filter(|signal| !is_in(*signal, ignored));
        signals.hear(heard)?;
        Ok(signals)
    }

    /// From now on there is a child, which ends, stops and continues.
    pub(crate) fn hear_children(&mut self) -> Result<(), Failure> {
        // Whoever ignores that children end would never hear of it.
        let ignored = ignored();
        let heard = |signal: &Signal| *signal == Signal::CHILD || !is_in(*signal, ignored);
        self.hear(FOR_CHILDREN.into_iter().filter(heard))
    }

    /// From now on Ctrl-Z is ours to handle.
    pub(crate) fn hear_suspend(&mut self) -> Result<(), Failure> {
        self.hear([Signal::TSTP].into_iter())
    }

    fn hear(&mut self, signals: impl Iterator<Item = Signal>) -> Result<(), Failure> {
        for signal in signals {
            let heard = unix::signal(SignalKind::from_raw(signal.as_raw())).map_err(deaf)?;
            self.0.push((signal, heard));
        }
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, heard) in &mut self.0 {
                if heard.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Resolves when someone wants the process to end. There is no child yet
    /// that could make sense of the other signals.
    pub(crate) async fn end_asked(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if !matches!(signal, Signal::USR1 | Signal::USR2) {
                return signal;
            }
        }
    }
}

/// The code of a command that goes on until it is ended: an interrupt is how one
/// ends it, no failure.
pub(crate) fn end_code(signal: Signal) -> u8 {
    if signal == Signal::INT { 0 } else { exit_code(signal) }
}

/// The exit code of a process that ended by this signal, as in a shell.
pub(crate) fn exit_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

fn deaf(cause: io::Error) -> Failure {
    Failure::internal(format!("cannot listen to signals: {cause}"))
}

/// What was ignored as we started (`nohup`, a job in the background of a
/// script) stays ignored, by us and by the command.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signal: Signal, mask: u64) -> bool {
    mask >> (signal.as_raw() - 1) & 1 == 1
}
