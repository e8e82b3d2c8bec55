//! The command line: what can be asked for, and its help.

mod aim;
mod barrier;
mod bench;
mod cache;
mod counter;
mod doctor;
mod elect;
mod group;
mod id;
mod inner;
mod job;
mod latch;
mod observe;
mod once;
mod pages;
mod run;
mod schema;
mod wait;
mod watch;

use std::ffi::OsString;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use self::aim::Aim;
pub(crate) use self::barrier::{Barrier, BarrierAction};
pub(crate) use self::bench::Bench;
pub(crate) use self::cache::Cache;
pub(crate) use self::counter::{Counter, CounterAction};
pub(crate) use self::doctor::Doctor;
pub(crate) use self::elect::Elect;
pub(crate) use self::group::{Group, GroupAction, Join};
pub(crate) use self::id::{
    Decode, Id, Kind as IdKind, Many, Segment as IdSegment, Snowflake as IdSnowflake,
};
pub(crate) use self::inner::{GUARD, Guard, Inner, PEER, Peer, START, Start};
pub(crate) use self::job::{Job, OnLost, least_margin};
pub(crate) use self::latch::{Latch, LatchAction};
pub(crate) use self::observe::Observe;
pub(crate) use self::once::{Issue, Once, Redeem, Terms, Token, TokenAction};
pub(crate) use self::pages::{Completions, Man};
pub(crate) use self::run::{Permits, Run};
pub(crate) use self::schema::{Rule, Schema};
pub(crate) use self::wait::Wait;
pub(crate) use self::watch::Watch;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly -- ./backup.sh            one at a time on this host
  leasehold run deploy --no-wait -- make deploy   or not at all (exit code 75)
  leasehold once report/7 -- ./report.sh          once, and replayed ever after
  leasehold elect scheduler -- ./scheduler        one leads, the others wait
  leasehold ls                                    who holds what, who waits
  leasehold show nightly                          all about one name
  leasehold watch                                 the same, live
  leasehold doctor                                is the engine well?
  leasehold id segment orders                     the next number, without a gap

Exit codes:
    0  done
    1  nothing was evicted; nobody   75  busy: the lock, the lead, the id; or a
       leads; the latch is set;          wait ran out (see --busy-code)
       doctor has a warning          76  the lease was lost before the end
    2  wrong use or configuration    77  the engine refuses this user, or a token
    3  doctor sees a danger          78  nobody knows how it ended
                                    126  the command cannot be executed
   69  the engine is not reachable  127  the command was not found
   70  internal error               128+N  ended by signal N
   74  output cannot be written
  `run`, `elect` and `group join` pass on every other code of their command.";

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

/// Run a command under a lock; list, watch and evict leases; examine engines.
#[derive(Parser)]
#[command(name = "leasehold", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Who asks: a user, or leasehold itself.
pub(crate) enum Asked {
    Cli(Cli),
    Inner(Inner),
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

    /// Print JSON: what programs may want to read
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Ls(Ls),
    Show(Show),
    Evict(Evict),
    Watch(Watch),
    Once(Box<Once>),
    Token(Box<Token>),
    Elect(Box<Elect>),
    Observe(Observe),
    Barrier(Barrier),
    Latch(Latch),
    Counter(Counter),
    Group(Group),
    Cache(Cache),
    Doctor(Doctor),
    Bench(Bench),
    Id(Id),
    Schema(Schema),
    Completions(Completions),
    Man(Man),
}

/// List the names that are held or waited for
///
/// On a terminal a table; otherwise one line per holder with the same columns,
/// separated by tabs, without header, HELD and LEFT in seconds.
#[derive(Args)]
#[command(after_help = ls_help())]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) aim: Aim,

    /// Also free names that the engine remembers
    #[arg(long)]
    pub(crate) all: bool,
}

fn ls_help() -> String {
    format!(
        "Examples:\n  leasehold ls\n  leasehold ls order/ --all\n  \
         leasehold ls redis://cache.internal order/\n  \
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
    /// The name of the lock; before it, the URL of an engine, as --engine takes it
    #[arg(value_name = "NAME", required = true, num_args = 1..=2)]
    words: Vec<String>,
}

impl Show {
    /// The name; the engine goes to where it belongs.
    pub(crate) fn name(&self, global: &mut Global) -> Result<String, Failure> {
        let name = aim::aimed(&self.words, global)?;
        name.ok_or_else(|| Failure::usage("say a name as well: leasehold show URL NAME"))
    }
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

    /// Only ask the holder to let go, and take nothing away
    #[arg(long)]
    pub(crate) ask: bool,

    /// Only show who would be evicted
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Evict {
    /// What the definition of the options cannot say.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        aim::is_name(&self.name)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|why| format!("{why}; write 30s, 5m or 1h 30m"))
}

/// Reads the command line; `None` if it asked for help, which has been given.
pub(crate) fn parse() -> Result<Option<Asked>, Failure> {
    let asked = if Inner::is_meant() {
        Inner::try_parse().map(Asked::Inner)
    } else {
        Cli::try_parse().map(Asked::Cli)
    };
    let error = match asked {
        Ok(asked) => return Ok(Some(asked)),
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

/// What could have been said: commands, or those below one.
fn wanted(error: &clap::Error) -> String {
    let below = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    match error.get(ContextKind::ValidSubcommand) {
        Some(ContextValue::Strings(names)) if below.is_some_and(|it| it.contains(' ')) => {
            let names = names.iter().map(String::as_str).filter(|name| *name != "help");
            names.collect::<Vec<_>>().join(", ")
        }
        _ => commands(),
    }
}

/// What clap says in a paragraph, in a line, with what would have been right.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand {
        return format!("say what to do: {}; see leasehold --help", wanted(error));
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = first.split_whitespace().collect();
    let said = words.join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let command = asked_for(std::env::args_os());
    let valid = match error.kind() {
        ErrorKind::UnknownArgument => valid_arguments(&command, error),
        ErrorKind::InvalidSubcommand => format!("; one of {}", below(&command)),
        ErrorKind::MissingRequiredArgument if runs_command(&command) => AFTER_DASHES.into(),
        _ => String::new(),
    };
    let path = command.get_bin_name().unwrap_or("leasehold");
    format!("{said}{valid}; see {path} --help")
}

const AFTER_DASHES: &str = "; the command to run comes after `--`";

/// Whether what is meant runs a command of the user.
fn runs_command(command: &clap::Command) -> bool {
    command.get_positionals().any(clap::Arg::is_last_set)
}

fn valid_arguments(command: &clap::Command, error: &clap::Error) -> String {
    let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if !unknown.starts_with('-') {
        return if runs_command(command) { AFTER_DASHES.into() } else { String::new() };
    }
    let options: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    format!("; valid options: --{}", options.join(" --"))
}

/// `run, ls, show, ... or man`
fn commands() -> String {
    below(&Cli::command())
}

fn below(command: &clap::Command) -> String {
    let mut names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// The subcommand that the user meant, or the whole.
fn asked_for(args: impl Iterator<Item = OsString>) -> clap::Command {
    let mut whole = Cli::command();
    whole.build();
    let words = args.skip(1).take_while(|word| word != "--");
    words.fold(whole, |above, word| above.find_subcommand(word).cloned().unwrap_or(above))
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
        for command in Cli::command().get_subcommands() {
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
