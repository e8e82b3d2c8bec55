//! The terminal: whoever is in its foreground may read from it.
//!
//! The command has a process group of its own, so it would be in the
//! background, and stopped as soon as it reads. Therefore it is put into the
//! foreground, as a shell does with its jobs:
//!
//! - at the start, if standard input and output are the terminal;
//! - otherwise when it wants to read (`leasehold run x -- job | less`: here the
//!   pager needs the keyboard, unless the job asks for it).
//!
//! When it is suspended (Ctrl-Z), so are we, for the shell to notice. Nobody
//! renews the lease then; it may be lost before `fg`, and then the command is
//! stopped, not continued.

use std::cell::Cell;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named};
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that standard input comes from.
pub(crate) struct Terminal {
    tty: OwnedFd,
    job: Pid,
    /// Whether the job is known to want it.
    wanted: Cell<bool>,
}

impl Terminal {
    /// The terminal, handed to `job` if it surely wants it.
    pub(crate) fn for_job(job: Pid) -> Option<Self> {
        let tty = stdin().as_fd().try_clone_to_owned().ok().filter(IsTerminal::is_terminal)?;
        let terminal = Self { tty, job, wanted: Cell::new(stdout().is_terminal()) };
        terminal.lend_again();
        Some(terminal)
    }

    /// Puts the job into the foreground if it wants that, and we are there.
    pub(crate) fn lend_again(&self) {
        if self.wanted.get() {
            self.lend();
        }
    }

    /// The same for a job that asks for it: true if it is there now.
    pub(crate) fn lend(&self) -> bool {
        self.wanted.set(true);
        if self.foreground() == Some(getpgrp()) {
            self.put(self.job);
        }
        self.is_lent()
    }

    /// Takes the foreground back, if the job still has it.
    pub(crate) fn take_back(&self) {
        if self.is_lent() {
            self.put(getpgrp());
        }
    }

    /// Whether the job is in the foreground.
    pub(crate) fn is_lent(&self) -> bool {
        self.foreground() == Some(self.job)
    }

    /// Suspends us and whoever shares our place in the shell's job. Comes back
    /// when we are continued; at once if no shell is there to do that.
    pub(crate) fn suspend() {
        // Not TSTP, which we catch; the kernel treats this one alike.
        let _ = kill_current_process_group(Signal::TTIN);
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.tty).ok()
    }

    /// From the background this is allowed only with SIGTTOU blocked.
    fn put(&self, group: Pid) {
        let ttou = SigSet::from(Named::SIGTTOU);
        let before = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        // Without the terminal (it was closed) there is nothing to hand over.
        let _ = tcsetpgrp(&self.tty, group);
        let _ = before.map(|mask| mask.thread_set_mask());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
