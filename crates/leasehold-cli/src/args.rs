//! The command line: what can be asked for, and its help.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./backup.sh            one at a time on this host
  leasehold run deploy --no-wait -- make deploy   or not at all (exit code 75)
  leasehold ls                                    who holds what, who waits
  leasehold show nightly                          all about one name

Exit codes:
    0  done                          75  the lock is busy (run --busy-code)
    1  nothing was evicted           76  the lease was lost, the command stopped
    2  wrong use or configuration    77  the engine refuses this user
   69  the engine is not reachable  126  the command cannot be executed
   70  internal error               127  the command was not found
   74  output cannot be written     128+N  ended by signal N
  `run` passes on every other code of the command it runs.";

const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./backup.sh
  leasehold run nightly --wait 10m --max-hold 2h -- ./backup.sh --all
  leasehold run cron/report --no-wait --busy-code 0 --hold-at-least 1m -- ./report
  leasehold run deploy --meta \"ticket 4711\" -- sh -c 'make && make deploy'

Environment of the command:
  LEASEHOLD_NAME      the name of the lock
  LEASEHOLD_FENCE     the fencing number: hand it to what you write to, which
                      must refuse a smaller one than it has seen
  LEASEHOLD_DEADLINE  until when the lease certainly held as the command
                      started, in whole seconds since 1970; it moves on with
                      every renewal
  LEASEHOLD_LABEL     what others see as the holder

Exit codes:
  the command's own, or 128+N if signal N ended it; and
   75  the lock is busy: --no-wait, or --wait ran out (see --busy-code)
   76  the lease was lost, evicted or older than --max-hold, and the command
       was stopped
    2  wrong use      69  engine not reachable       70  internal error
  126  cannot be executed   127  not found   130, 143  interrupted while waiting

When the lease is lost:
  The command runs in a process group of its own. If the lease cannot be
  renewed, the group gets SIGTERM while there is still time, --grace before the
  lease runs out, and SIGKILL before it has. After an eviction it gets SIGTERM
  at once and SIGKILL after the grace.
  If leasehold itself is killed (-9), Linux kills the command at once, but not
  what the command has started; and a leasehold that is stopped (-STOP) cannot
  stop anything. What must not happen twice checks LEASEHOLD_FENCE.
  The lock ends with the command, not with what it leaves in the background.

Signals:
  HUP INT QUIT TERM USR1 USR2 TSTP CONT are passed on to the group, except
  those that were ignored at the start (nohup).";

const JSON_STATUS: &str = "\
  name, namespace, free (true or false),
  holders: label, mode, fence, held_seconds, left_seconds, meta,
  waiters, next first: label, mode, waiting_seconds,
  closed_seconds: how long the name stays closed although nobody holds it,
  last: label, fence, ended (released, expired, evicted, unknown), ago_seconds,
    remark
  A semaphore's mode is \"permits\", with take and of beside it. What is not
  known is null.";

const GLOBAL: &str = "Global options";

/// Run a command under a lock; list, show and evict leases.
#[derive(Parser)]
#[command(name = "leasehold", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

// No `Debug`: the URL may hold a password.
#[derive(Args)]
pub(crate) struct Global {
    /// Where the leases are [default: SQLite in the user's state folder]
    ///
    /// An engine URL such as sqlite:/var/lib/app/locks.db. Without it, the
    /// locks are in $XDG_STATE_HOME/leasehold/locks.db, or else in
    /// ~/.local/state/leasehold/locks.db: for all processes of this user on
    /// this host. Other users see the command line: set the variable instead
    /// if the URL has a password.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL", env = "LEASEHOLD_ENGINE")]
    #[arg(hide_env_values = true)]
    pub(crate) engine: Option<String>,

    /// The namespace of the names
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Print JSON (ls, show, evict)
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Ls(Ls),
    Show(Show),
    Evict(Evict),
    #[command(name = START, hide = true)]
    Start(Start),
}

/// Run a command while holding a lock
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// The name of the lock
    pub(crate) name: String,

    /// Wait at most this long for the lock [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: give up if the lock is busy
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Free at most this long after leasehold's last sign of life
    ///
    /// The lease is renewed every third of it, as long as the command runs.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) ttl: Duration,

    /// Stop the command after it has held the lock for this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// Demand exact arrival order over all processes
    #[arg(long)]
    pub(crate) fair: bool,

    /// Keep the lock closed for this long, even if the command ends earlier
    ///
    /// For short jobs that hosts with different clocks start at "the same" time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) hold_at_least: Option<Duration>,

    /// Keep an expired (not a released) lock closed for this much longer
    #[arg(long, value_name = "DURATION", value_parser = duration)]
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
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
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
    /// When the library is to end the lease. A command that is to be stopped
    /// keeps its lease while it is being stopped.
    pub(crate) fn longest_lease(&self) -> Option<Duration> {
        let stopping = if self.on_lost == OnLost::Ignore { Duration::ZERO } else { self.grace };
        self.max_hold.map(|most| most.saturating_add(stopping).saturating_add(stopping))
    }
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

/// List the names that are held or waited for
///
/// On a terminal a table; otherwise one line per holder with the same columns,
/// separated by tabs, without header, HELD and LEFT in seconds.
#[derive(Args)]
#[command(after_help = ls_help())]
pub(crate) struct Ls {
    /// Only names that start with this text
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,

    /// Also free names that the engine remembers
    #[arg(long)]
    pub(crate) all: bool,
}

fn ls_help() -> String {
    format!(
        "Examples:\n  leasehold ls\n  leasehold ls order/ --all\n  \
         leasehold ls | sort -t$'\\t' -k5 -rn | head -1      the longest held\n\n\
         JSON: an array; each element has\n{JSON_STATUS}"
    )
}

/// Show who holds a name, who waits for it, and who held it before
///
/// A free name is no error: the exit code is 0.
#[derive(Args)]
#[command(after_help = format!(
    "Examples:\n  leasehold show nightly\n  leasehold show nightly --json | jq .holders[0].fence\n\n\
     JSON: an object with\n{JSON_STATUS}"
))]
pub(crate) struct Show {
    /// The name of the lock
    pub(crate) name: String,
}

/// Take a lock away from its holder
///
/// The holder is told who did it and why; a command under `leasehold run` is
/// stopped. Find the fence with `leasehold show`: it makes sure that nobody
/// else is hit who got the lock meanwhile.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold evict nightly --expect-fence 17 --dry-run
  leasehold evict nightly --expect-fence 17 --reason \"host is gone, ticket 4711\"
  leasehold evict nightly --all --reason \"drill\"

JSON: an object with name, namespace, dry_run, actor, reason, reopened (a name
that was kept closed is open again), and evicted, a list of
  label, mode, fence, held_seconds, left_seconds, meta

Exit codes: 1 if nothing was evicted; see also `leasehold --help`.")]
pub(crate) struct Evict {
    /// The name of the lock
    pub(crate) name: String,

    /// Evict the holder with this fence, and nobody else
    #[arg(long, value_name = "N", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) expect_fence: Option<u64>,

    /// Evict every holder, and open a name that is kept closed
    #[arg(long)]
    pub(crate) all: bool,

    /// Why; the holder is told, and `show` keeps it
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub(crate) reason: Option<String>,

    /// Only show who would be evicted
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The word for [`Start`] on the command line.
pub(crate) const START: &str = "__start";

/// The step between `run` and its command: ties its own life to `run`'s, then
/// becomes the command. Only the new process itself can do that.
#[derive(Args)]
pub(crate) struct Start {
    /// Die with this process
    #[arg(long)]
    pub(crate) tether: Option<u32>,

    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|why| format!("{why}; write 30s, 5m or 1h 30m"))
}

/// Reads the command line; `None` if it asked for help, which has been given.
pub(crate) fn parse() -> Result<Option<Cli>, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(Some(cli)),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Readers of help may leave early.
            let _ = error.print();
            Ok(None)
        }
        _ => Err(Failure::usage(one_line(&error))),
    }
}

/// What clap says in a paragraph, in a line, with what would have been right.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand {
        return "say what to do: run, ls, show or evict; see leasehold --help".into();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = first.split_whitespace().collect();
    let said = words.join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let command = asked_for(std::env::args_os());
    let valid = match error.kind() {
        ErrorKind::UnknownArgument => valid_arguments(&command, error),
        _ => String::new(),
    };
    let path = command.get_bin_name().unwrap_or("leasehold");
    format!("{said}{valid}; see {path} --help")
}

fn valid_arguments(command: &clap::Command, error: &clap::Error) -> String {
    let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if command.get_name() == "run" && !unknown.starts_with('-') {
        return "; the command to run comes after `--`".into();
    }
    let options: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    format!("; valid options: --{}", options.join(" --"))
}

/// The subcommand that the user meant, or the whole.
fn asked_for(args: impl Iterator<Item = OsString>) -> clap::Command {
    let mut whole = Cli::command();
    whole.build();
    let mut words = args.skip(1).take_while(|word| word != "--");
    let found = words.find_map(|word| whole.find_subcommand(word).cloned());
    found.unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("30").unwrap_err().contains("30s"));
    }
}
