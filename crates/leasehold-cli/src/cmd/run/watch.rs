//! Watching over the command and its lease at once.
//!
//! The command must have ended before the lease can be someone else's. So it
//! is not enough to stop it when the lease is lost: its last moments are begun
//! while there is time left.

use std::time::Duration;

use leasehold::engine::Loss;
use leasehold::{Clock, Moment, Standing};
use rustix::process::Signal;
use tokio::time::sleep;

use super::child::{Child, Life};
use super::tenure::Tenure;
use super::terminal::Terminal;
use crate::args::{OnLost, Run};
use crate::output::tell;
use crate::signals::Signals;
use crate::text::span;

/// The longest nap: timers stand still while the machine is suspended, the
/// lease's clock does not.
const NAP: Duration = Duration::from_millis(500);
/// The nap while a group is being stopped.
const SHORT_NAP: Duration = Duration::from_millis(20);
/// How long to wait for a killed group; one in the kernel's hands may not end.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// How the command ended.
pub(crate) enum End {
    /// By itself, or by a signal that was passed on.
    Own(u8),
    /// We stopped it, for its lease.
    Stopped,
}

pub(crate) struct Watch<'a> {
    tenure: &'a Tenure,
    child: Child,
    terminal: Option<Terminal>,
    plan: Plan,
    ended: Option<u8>,
    lost: bool,
    stop: Option<Stop>,
}

/// What to do when, as asked for on the command line.
struct Plan {
    on_lost: OnLost,
    grace: Duration,
    /// The lease's remaining time at which to begin, and to kill.
    begin_at: Duration,
    kill_at: Duration,
    /// When it has been held for long enough.
    until: Moment,
}

/// A group that is being stopped.
struct Stop {
    since: Moment,
    killed: Option<Moment>,
}

/// Why a command cannot go on.
enum Trouble {
    Lost,
    RunsOut,
    TooLong,
}

impl Plan {
    fn new(args: &Run, left: Duration) -> Self {
        // A healthy lease never has less than two thirds of its ttl left.
        let margin = args.grace.min(args.ttl.min(left) / 3);
        let kill_at = margin / 4;
        let begin_at = if args.on_lost == OnLost::Kill { kill_at } else { margin };
        let now = Clock::System.now();
        let until = args.max_hold.map_or(Moment::NEVER, |most| now.after(most));
        Self { on_lost: args.on_lost, grace: args.grace, begin_at, kill_at, until }
    }
}

impl<'a> Watch<'a> {
    pub(crate) fn new(args: &Run, tenure: &'a Tenure, child: Child) -> Self {
        let terminal = Terminal::for_job(child.group());
        let plan = Plan::new(args, tenure.weakest().remaining());
        Self { tenure, child, terminal, plan, ended: None, lost: false, stop: None }
    }

    pub(crate) async fn until_end(mut self, signals: &mut Signals) -> End {
        loop {
            if let Some(end) = self.look() {
                return end;
            }
            tokio::select! {
                signal = signals.next() => self.hear(signal),
                _ = self.tenure.lost(), if !self.lost => {}
                () = sleep(self.nap()) => {}
            }
        }
    }

    fn nap(&self) -> Duration {
        let left = self.tenure.weakest().remaining().saturating_sub(self.plan.begin_at);
        let most = self.plan.until.since(Clock::System.now());
        match self.stop {
            Some(_) => SHORT_NAP,
            None if self.plan.on_lost == OnLost::Ignore => NAP,
            None => left.min(most).clamp(SHORT_NAP, NAP),
        }
    }

    fn look(&mut self) -> Option<End> {
        match self.child.look() {
            Life::Same => {}
            Life::Stopped(signal) => self.suspended(signal),
            Life::Ended(code) => self.ended = Some(code),
        }
        match (&self.stop, self.ended) {
            (None, Some(code)) => Some(End::Own(code)),
            (None, None) => self.check_lease(),
            (Some(_), _) => self.go_on_stopping(),
        }
    }

    fn hear(&self, signal: Signal) {
        match signal {
            Signal::CHILD => {}
            Signal::CONT => self.resume(),
            signal => self.child.signal(signal),
        }
    }

    // Job control: see terminal.rs.

    fn suspended(&self, signal: i32) {
        let Some(terminal) = &self.terminal else { return };
        let wants_terminal = [Signal::TTIN, Signal::TTOU].iter().any(|s| s.as_raw() == signal);
        if wants_terminal && terminal.lend() {
            self.child.signal(Signal::CONT);
        } else if wants_terminal || terminal.is_lent() {
            Terminal::suspend();
            self.resume();
        }
    }

    /// Lets the command go on, if it still may.
    fn resume(&self) {
        if self.trouble().is_none() || self.plan.on_lost == OnLost::Ignore {
            self.terminal.iter().for_each(Terminal::lend_again);
            self.child.signal(Signal::CONT);
        }
    }

    // The lease.

    fn trouble(&self) -> Option<Trouble> {
        match self.tenure.weakest().standing() {
            Standing::Lost(_) => Some(Trouble::Lost),
            _ if Clock::System.now() >= self.plan.until => Some(Trouble::TooLong),
            _ if self.tenure.weakest().remaining() <= self.plan.begin_at => Some(Trouble::RunsOut),
            _ => None,
        }
    }

    fn check_lease(&mut self) -> Option<End> {
        let trouble = self.trouble()?;
        let first = !std::mem::replace(&mut self.lost, matches!(trouble, Trouble::Lost));
        match self.plan.on_lost {
            OnLost::Ignore if first && self.lost => self.explain(&trouble, "it goes on regardless"),
            OnLost::Ignore => {}
            OnLost::Term | OnLost::Kill => self.begin_to_stop(&trouble),
        }
        None
    }

    fn begin_to_stop(&mut self, trouble: &Trouble) {
        self.explain(trouble, "stopping the command");
        self.stop = Some(Stop { since: Clock::System.now(), killed: None });
        if self.is_time_to_kill() {
            self.kill();
        } else {
            self.child.signal(Signal::TERM);
            // A stopped process would not hear of it.
            self.child.signal(Signal::CONT);
        }
    }

    fn go_on_stopping(&mut self) -> Option<End> {
        self.lost |= matches!(self.tenure.weakest().standing(), Standing::Lost(_));
        let now = Clock::System.now();
        let killed = self.stop.as_ref().and_then(|stop| stop.killed);
        match killed {
            _ if self.ended.is_some() && self.child.is_gone() => Some(End::Stopped),
            Some(at) if now >= at.after(AFTER_KILL) => {
                tell("some processes of the command do not end although they were killed");
                Some(End::Stopped)
            }
            None if self.is_time_to_kill() => {
                self.explain_kill();
                self.kill();
                None
            }
            _ => None,
        }
    }

    fn kill(&mut self) {
        self.child.signal(Signal::KILL);
        if let Some(stop) = &mut self.stop {
            stop.killed = Some(Clock::System.now());
        }
    }

    fn explain_kill(&self) {
        let left = self.tenure.weakest().remaining();
        let left = (!left.is_zero()).then(|| format!(", {} before the lease ends", span(left)));
        tell(&format!("the command does not end; killing it{}", left.unwrap_or_default()));
    }

    fn is_time_to_kill(&self) -> bool {
        let begun = self.stop.as_ref().map_or(Moment::NEVER, |stop| stop.since);
        let patient = Clock::System.now() < begun.after(self.plan.grace);
        match self.tenure.weakest().standing() {
            _ if self.plan.on_lost == OnLost::Kill || !patient => true,
            // Whoever evicted it knows that it takes a moment to end.
            Standing::Lost(Loss::Evicted { .. }) => {
                self.tenure.others_remaining() <= self.plan.kill_at
            }
            Standing::Lost(_) => true,
            _ => self.tenure.weakest().remaining() <= self.plan.kill_at,
        }
    }

    fn explain(&self, trouble: &Trouble, what: &str) {
        let weakest = self.tenure.weakest();
        let name = weakest.name().as_str();
        let why = match (trouble, weakest.check()) {
            (Trouble::Lost, Err(error)) => error.to_string(),
            (Trouble::TooLong, _) => format!("{name:?} was held for as long as --max-hold allows"),
            _ => {
                let left = span(weakest.remaining());
                format!("the lease on {name:?} cannot be renewed and runs out in {left}")
            }
        };
        tell(&format!("{why}; {what}"));
    }
}
