//! `run`: its options and its help.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./backup.sh
  leasehold run nightly --wait 10m --max-hold 2h -- ./backup.sh --all
  leasehold run cron/report --no-wait --busy-code 0 --hold-at-least 1m -- ./report
  leasehold run deploy --meta \"ticket 4711\" -- sh -c 'make && make deploy'
  leasehold run account/3 account/7 -- ./transfer         both, or neither
  leasehold run catalogue --shared -- ./read-it           many readers at once,
  leasehold run catalogue --exclusive -- ./write-it       or one writer
  leasehold run downloads --permits 2/5 -- ./fetch        2 of 5 permits

Modes:
  Without an option a name is a mutex: one holder. A name is one kind of lock
  at a time: --shared and --exclusive meet each other, and --permits meets
  --permits with the same number after the slash; all else is refused while
  the name is in use. Several names are mutexes, taken all or none, without
  deadlock, whatever their order; if one lease is lost, the command is stopped.

Environment of the command:
  LEASEHOLD_NAME      the name of the lock; of several, one per line, sorted
  LEASEHOLD_FENCE     the fencing number: hand it to what you write to, which
                      must refuse a smaller one than it has seen; of several
                      names, one per line, in the order of LEASEHOLD_NAME
  LEASEHOLD_FENCES    a JSON object on one line, from each name to its fence
  LEASEHOLD_DEADLINE  until when the lease certainly held as the command
                      started, in whole seconds since 1970; it moves on with
                      every renewal
  LEASEHOLD_LABEL     what others see as the holder

Exit codes:
  the command's own, or 128+N if signal N ended it; and
   75  the lock is busy: --no-wait, or --wait ran out (see --busy-code)
   76  the lease was lost, evicted or older than --max-hold before the command
       had ended; if it still ran, it was stopped
    2  wrong use      69  engine not reachable       70  internal error
  126  cannot be executed   127  not found   130, 143  interrupted while waiting

When the lease is lost:
  The command has a process group of its own, below a guardian: a small process
  of leasehold. If the lease cannot be renewed, the command and all that it has
  started get SIGTERM while there is still time, --grace before the lease runs
  out, and SIGKILL before it has. After an eviction they get SIGTERM at once and
  SIGKILL after the grace. If the command ends by itself and its lease was lost
  before, the exit code is 76 all the same, except with --on-lost ignore.
  If leasehold itself is killed (-9) the guardian kills them at once, if it is
  stopped (-STOP) before the lease runs out; if the guardian is killed,
  leasehold does it (exit code 70). On Linux that finds daemons and sessions of
  their own too, elsewhere the group. It does not reach processes of another
  user (sudo), nor those that a service starts for the command (docker, at);
  and if both are killed together, only the command itself ends with them.
  What must not happen twice checks LEASEHOLD_FENCE.
  The lock ends with the command, not with what it leaves in the background.

Signals:
  HUP INT QUIT TERM USR1 USR2 TSTP CONT are passed on to the group, except
  those that were ignored at the start (nohup).";

/// Run a command while holding a lock
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The name of the lock, or several to take together
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Share it with other readers: the read half of a read-write lock
    #[arg(long, group = "mode")]
    pub(crate) shared: bool,

    /// Be its only user: the write half of a read-write lock
    #[arg(long, group = "mode")]
    pub(crate) exclusive: bool,

    /// Take this many of so many permits, as in 2/5: a semaphore
    #[arg(long, group = "mode", value_name = "TAKE/OF")]
    pub(crate) permits: Option<Permits>,

    /// Wait at most this long for the lock [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = super::duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: give up if the lock is busy
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Free at most this long after leasehold's last sign of life
    ///
    /// The lease is renewed every third of it, as long as the command runs.
    #[arg(long, value_name = "DURATION", value_parser = super::duration, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Stop the command after it has held the lock for this long
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) max_hold: Option<Duration>,

    /// Demand exact arrival order over all processes
    #[arg(long)]
    pub(crate) fair: bool,

    /// Keep the lock closed for this long, even if the command ends earlier
    ///
    /// For short jobs that hosts with different clocks start at "the same" time.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) hold_at_least: Option<Duration>,

    /// Keep an expired (not a released) lock closed for this much longer
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

    /// The exit code if the lock is busy
    #[arg(long, value_name = "N", default_value_t = crate::failure::BUSY)]
    pub(crate) busy_code: u8,

    /// Do not say that the command waits
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let has_mode = self.shared || self.exclusive || self.permits.is_some();
        if has_mode && self.names.len() > 1 {
            let why = "--shared, --exclusive and --permits take one name; several are mutexes";
            return Err(Failure::usage(why));
        }
        self.names.iter().try_for_each(|name| super::aim::is_name(name))
    }

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

/// A share of a semaphore: `2/5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) take: u32,
    pub(crate) of: u32,
}

impl FromStr for Permits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write TAKE/OF, as in 2/5: two of five permits".to_owned();
        let (take, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        match (number(take)?, number(of)?) {
            (take, of) if (1..=of).contains(&take) => Ok(Self { take, of }),
            _ => Err("take at least one permit and at most all of them".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: Run,
    }

    #[test]
    fn a_command_keeps_its_lease_while_it_is_being_stopped_however_short_its_grace() {
        for grace in ["0s", "1ms", "5s"] {
            let line = ["run", "n", "--max-hold", "10s", "--grace", grace, "--", "true"];
            let longest = Line::parse_from(line).run.longest_lease().unwrap();
            assert!(longest >= Duration::from_secs(11), "{grace}: {longest:?}");
        }
    }

    #[test]
    fn permits_are_a_share() {
        assert_eq!("2/5".parse(), Ok(Permits { take: 2, of: 5 }));
        for wrong in ["", "2", "0/5", "6/5", "-1/5", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Permits>().is_err(), "{wrong}");
        }
    }
}
