//! A command and its lease: the options of all that runs a command under one.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// A command, how it waits for its lease, and what becomes of both.
#[derive(Args)]
pub(crate) struct Job {
    /// Wait at most this long [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = super::duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: give up if it is busy
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Free at most this long after leasehold's last sign of life
    ///
    /// The lease is renewed every third of it, as long as the command runs.
    #[arg(long, value_name = "DURATION", value_parser = super::duration, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Stop the command after it has held this for so long
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) max_hold: Option<Duration>,

    /// Demand exact arrival order over all processes
    #[arg(long)]
    pub(crate) fair: bool,

    /// Keep the name closed for this long, even if the command ends earlier
    ///
    /// For short jobs that hosts with different clocks start at "the same" time.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) hold_at_least: Option<Duration>,

    /// Keep an expired (not a released) name closed for this much longer
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) lock_delay: Option<Duration>,

    /// What others see as the holder [default: user@host:pid and the command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// A remark for people, shown by `leasehold show`
    #[arg(long, value_name = "TEXT")]
    pub(crate) meta: Option<String>,

    /// What to do with the command when the lease is lost
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,

    /// The time between SIGTERM and SIGKILL; at most a third of the ttl if the
    /// lease runs out
    #[arg(long, value_name = "DURATION", value_parser = super::duration, default_value = "5s")]
    pub(crate) grace: Duration,

    /// The exit code if it is busy
    #[arg(long, value_name = "N", default_value_t = crate::failure::BUSY)]
    pub(crate) busy_code: u8,

    /// Do not say that the command waits
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl Job {
    /// When the library is to end the lease. A command that is to be stopped
    /// keeps its lease while it is being stopped.
    pub(crate) fn longest_lease(&self) -> Option<Duration> {
        let stopping = match self.on_lost {
            OnLost::Ignore => Duration::ZERO,
            OnLost::Term | OnLost::Kill => self.grace.max(least_margin(self.ttl)),
        };
        self.max_hold.map(|most| most.saturating_add(stopping).saturating_add(stopping))
    }
}

/// How long before the end of a lease a command is stopped at the latest, however
/// short its grace: a signal takes its time.
pub(crate) fn least_margin(ttl: Duration) -> Duration {
    (ttl / 12).max(Duration::from_millis(20))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL before the lease can be someone else's
    Term,
    /// SIGKILL
    Kill,
    /// Warn, and let it go on
    Ignore,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        job: Job,
    }

    #[test]
    fn a_command_keeps_its_lease_while_it_is_being_stopped_however_short_its_grace() {
        for grace in ["0s", "1ms", "5s"] {
            let line = ["run", "--max-hold", "10s", "--grace", grace, "--", "true"];
            let longest = Line::parse_from(line).job.longest_lease().unwrap();
            assert!(longest >= Duration::from_secs(11), "{grace}: {longest:?}");
        }
    }
}
