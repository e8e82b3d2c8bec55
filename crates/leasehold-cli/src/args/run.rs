//! `run`: its options and its help.

use std::str::FromStr;

use clap::Args;

use super::Job;
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

    #[command(flatten)]
    pub(crate) job: Job,
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
    use super::*;

    #[test]
    fn permits_are_a_share() {
        assert_eq!("2/5".parse(), Ok(Permits { take: 2, of: 5 }));
        for wrong in ["", "2", "0/5", "6/5", "-1/5", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Permits>().is_err(), "{wrong}");
        }
    }
}
