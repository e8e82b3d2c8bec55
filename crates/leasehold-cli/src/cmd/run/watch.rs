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
use super::lease::Lease;
use super::terminal::Terminal;
use crate::args::{Job, OnLost, least_margin};
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
    /// We stopped it, because its guardian has died.
    Unguarded,
}

pub(crate) struct Watch<'a> {
    lease: &'a dyn Lease,
    child: Child,
    terminal: Option<Terminal>,
    plan: Plan,
    ended: Option<u8>,
    lost: bool,
    stop: Option<Stop>,
}

/// What to do when, as asked for on the command line.
pub(crate) struct Plan {
    on_lost: OnLost,
    grace: Duration,
    /// The lease's remaining time at which to begin, and to kill.
    begin_at: Duration,
    kill_at: Duration,
    /// When it has been held for long enough.
    until: Moment,
}

/// A command that is being stopped.
struct Stop {
    since: Moment,
    killed: Option<Moment>,
    end: End,
}

/// Why a command cannot go on.
enum Trouble {
    Lost,
    RunsOut,
    TooLong,
    Unguarded,
}

impl Plan {
    /// What is asked for with a command.
    pub(crate) fn of_job(job: &Job, lease: &dyn Lease) -> Self {
        let plan = Self::new(job.on_lost, job.grace, job.ttl.min(lease.remaining()));
        let now = Clock::System.now();
        Self { until: job.max_hold.map_or(Moment::NEVER, |most| now.after(most)), ..plan }
    }

    pub(crate) fn new(on_lost: OnLost, grace: Duration, ttl: Duration) -> Self {
        // A healthy lease never has less than two thirds of its ttl left.
        let margin = grace.min(ttl / 3).max(least_margin(ttl));
        let kill_at = (margin / 4).max(SHORT_NAP);
        let begin_at = if on_lost == OnLost::Kill { kill_at } else { margin };
        Self { on_lost, grace, begin_at, kill_at, until: Moment::NEVER }
    }

    /// When the guardian kills, should we be stopped ourselves: a little after we
    /// would, and before the lease has run out. Never, if that was asked for.
    pub(crate) fn latest(&self, lease: &dyn Lease) -> Option<Moment> {
        let latest = lease.deadline().before(self.kill_at / 2);
        (self.on_lost != OnLost::Ignore).then_some(latest)
    }
}

impl<'a> Watch<'a> {
    pub(crate) fn new(plan: Plan, lease: &'a dyn Lease, child: Child) -> Self {
        let terminal = Terminal::for_job(child.group());
        Self { lease, child, terminal, plan, ended: None, lost: false, stop: None }
    }

    pub(crate) async fn until_end(mut self, signals: &mut Signals) -> End {
        loop {
            if let Some(end) = self.look() {
                return end;
            }
            let (nap, lease, lost) = (self.nap(), self.lease, self.lost);
            tokio::select! {
                signal = signals.next() => self.hear(signal),
                () = self.child.changed() => {}
                _ = lease.lost(), if !lost => {}
                () = sleep(nap) => {}
            }
        }
    }

    fn nap(&self) -> Duration {
        let left = self.lease.remaining().saturating_sub(self.plan.begin_at);
        let most = self.plan.until.since(Clock::System.now());
        match self.stop {
            Some(_) => SHORT_NAP,
            None if self.plan.on_lost == OnLost::Ignore => NAP,
            // Half of it: the guardian, too, must hear of a renewal in time.
            None => (left / 2).min(most).clamp(SHORT_NAP, NAP),
        }
    }

    fn look(&mut self) -> Option<End> {
        self.child.kill_at(self.latest());
        loop {
            match self.child.look() {
                Life::Same => break,
                Life::Stopped(signal) => self.suspended(signal),
                Life::Doomed => self.killed_by_guardian(),
                Life::Ended(code) => self.ended = Some(code),
            }
        }
        match (&self.stop, self.ended) {
            (None, Some(code)) if !self.has_lost_its_guardian() => {
                self.child.leave();
                Some(End::Own(code))
            }
            (None, _) => self.check_lease(),
            (Some(_), _) => self.go_on_stopping(),
        }
    }

    fn has_lost_its_guardian(&self) -> bool {
        self.child.is_unguarded() && self.plan.on_lost != OnLost::Ignore
    }

    /// The same, while it is being stopped too.
    fn latest(&self) -> Moment {
        let Some(runs_out) = self.plan.latest(self.lease) else { return Moment::NEVER };
        let others = self.lease.others_end().before(self.plan.kill_at / 2);
        match (&self.stop, self.lease.standing()) {
            (None, _) => runs_out,
            (Some(Stop { killed: Some(at), .. }), _) => *at,
            (Some(stop), Standing::Lost(_)) => self.after_grace(stop).min(others),
            (Some(stop), _) => self.after_grace(stop).min(runs_out),
        }
    }

    fn after_grace(&self, stop: &Stop) -> Moment {
        stop.since.after(self.plan.grace).after(NAP)
    }

    /// We could not run when it was time to look after the lease.
    fn killed_by_guardian(&mut self) {
        let now = Clock::System.now();
        if self.stop.is_none() {
            let name = self.lease.name();
            tell(&format!(
                "the lease on {name:?} was not looked after in time; killed the command"
            ));
            self.stop = Some(Stop { since: now, killed: Some(now), end: End::Stopped });
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
        match self.lease.standing() {
            _ if self.has_lost_its_guardian() => Some(Trouble::Unguarded),
            Standing::Lost(_) => Some(Trouble::Lost),
            _ if Clock::System.now() >= self.plan.until => Some(Trouble::TooLong),
            _ if self.lease.remaining() <= self.plan.begin_at => Some(Trouble::RunsOut),
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
        let unguarded = matches!(trouble, Trouble::Unguarded);
        let end = if unguarded { End::Unguarded } else { End::Stopped };
        self.stop = Some(Stop { since: Clock::System.now(), killed: None, end });
        if unguarded || self.is_time_to_kill() {
            self.kill();
        } else {
            self.child.signal_all(Signal::TERM);
            // A stopped process would not hear of it.
            self.child.signal_all(Signal::CONT);
        }
    }

    fn go_on_stopping(&mut self) -> Option<End> {
        self.lost |= matches!(self.lease.standing(), Standing::Lost(_));
        let now = Clock::System.now();
        let killed = self.stop.as_ref().and_then(|stop| stop.killed);
        match killed {
            _ if self.ended.is_some() && self.child.is_gone() => self.stop.take().map(|it| it.end),
            // As long as the lease is ours nobody else is in: better late than two.
            Some(at) if now >= at.after(AFTER_KILL) && self.lease.check().is_err() => {
                tell("some processes of the command do not end although they were killed");
                self.stop.take().map(|stop| stop.end)
            }
            // Those who were started meanwhile must end too.
            Some(_) => {
                self.child.signal_all(Signal::KILL);
                None
            }
            None if self.is_time_to_kill() => {
                self.explain_kill();
                self.kill();
                None
            }
            None => None,
        }
    }

    fn kill(&mut self) {
        self.child.signal_all(Signal::KILL);
        if let Some(stop) = &mut self.stop {
            stop.killed = Some(Clock::System.now());
        }
    }

    fn explain_kill(&self) {
        let left = self.lease.remaining();
        let left = (!left.is_zero()).then(|| format!(", {} before the lease ends", span(left)));
        tell(&format!("the command does not end; killing it{}", left.unwrap_or_default()));
    }

    fn is_time_to_kill(&self) -> bool {
        let begun = self.stop.as_ref().map_or(Moment::NEVER, |stop| stop.since);
        let patient = Clock::System.now() < begun.after(self.plan.grace);
        let soon = Clock::System.now().after(self.plan.kill_at);
        match self.lease.standing() {
            _ if self.plan.on_lost == OnLost::Kill || !patient => true,
            // Whoever evicted it knows that it takes a moment to end.
            Standing::Lost(Loss::Evicted { .. }) => self.lease.others_end() <= soon,
            Standing::Lost(_) => true,
            _ => self.lease.deadline() <= soon,
        }
    }

    fn explain(&self, trouble: &Trouble, what: &str) {
        let name = self.lease.name();
        let why = match (trouble, self.lease.check()) {
            (Trouble::Lost, Err(error)) => error.to_string(),
            (Trouble::TooLong, _) => format!("{name:?} was held for as long as --max-hold allows"),
            (Trouble::Unguarded, _) => "the guardian of the command has died".into(),
            _ => {
                let left = span(self.lease.remaining());
                format!("the lease on {name:?} cannot be renewed and runs out in {left}")
            }
        };
        tell(&format!("{why}; {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_killed_before_its_lease_ends_however_short_its_grace() {
        for grace in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(5)] {
            for ttl in [Duration::from_millis(300), Duration::from_secs(30)] {
                for on_lost in [OnLost::Term, OnLost::Kill] {
                    let plan = Plan::new(on_lost, grace, ttl);
                    // The guardian has half of it.
                    assert!(plan.kill_at >= SHORT_NAP, "{grace:?} of {ttl:?}");
                    assert!(plan.kill_at <= plan.begin_at && plan.begin_at <= ttl / 3);
                }
            }
        }
    }
}
