//! A schedule: all that happens in one run, as data.
//!
//! It is drawn from a seed before the run begins, and nothing is drawn on the
//! way. So a step can be left out without moving the others, which is what
//! makes a failing schedule shrink to a few lines.

pub mod draw;
pub mod text;
mod theme;

use std::fmt;

/// Milliseconds of virtual time.
pub type Millis = u64;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What stays the same for the whole run.
    pub setting: Setting,
    /// What users do, each at its time.
    pub steps: Vec<Step>,
    /// What goes wrong, each at its time.
    pub faults: Vec<Fault>,
}

/// What the library runs against, and how it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Lease ids, jitter and delays are drawn from it, one stream for each client.
    pub seed: u64,
    /// What is behind the engine trait.
    pub stage: Stage,
    /// The ttl of leases that name no other.
    pub ttl: Millis,
    /// The longest ttl that the servers take.
    pub ttl_max: Millis,
    /// How long a request waits for its reply.
    pub timeout: Millis,
    /// How often a request is sent again.
    pub retries: u32,
    /// A message takes at least this long.
    pub quickest: Millis,
    /// And at most this long, without a fault.
    pub slowest: Millis,
}

/// What is behind the engine trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The pure core as one server, behind messages.
    Contract,
    /// A quorum over so many of them.
    Members(u8),
    /// Redis: our scripts on a model of its commands.
    Redis,
    /// A quorum of so many Redis servers.
    Redlock(u8),
}

impl Stage {
    /// How many servers there are.
    #[must_use]
    pub const fn servers(self) -> u8 {
        match self {
            Self::Contract | Self::Redis => 1,
            Self::Members(n) | Self::Redlock(n) => n,
        }
    }

    /// Whether a majority decides.
    #[must_use]
    pub const fn is_quorum(self) -> bool {
        matches!(self, Self::Members(_) | Self::Redlock(_))
    }
}

/// One thing that one user does. It begins at its time, or when the user has
/// done what comes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Millis,
    /// Who.
    pub user: User,
    /// What.
    pub act: Act,
}

/// A task of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User {
    /// The client: a process with a connection, a clock and a keeper.
    pub client: u8,
    /// Which task of it.
    pub task: u8,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.task)
    }
}

/// What a user does. Acts on a lease the user does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Asks for a lease.
    Ask(Ask),
    /// Makes the lease on this name run for longer.
    Extend(String, Millis),
    /// Turns its write lease into a read lease.
    Convert(String),
    /// Gives it back, and waits for the answer.
    Release(String),
    /// Drops the guard.
    Drop(String),
    /// Adds one to the fenced register of the name, this long after reading it.
    Write(String, Millis),
    /// Takes the name from its holders, as an operator does.
    Evict(String),
    /// Asks the holders of the name to let go.
    Want(String),
    /// Adds one to the number in a record.
    Count(String),
    /// Creates a record that is bound to the lease on the name.
    Bind(String),
    /// Does the work of a key once; it takes so long.
    Once(String, Millis),
    /// Looks who holds the name.
    Look(String),
    /// Closes the whole client.
    Shutdown(Millis),
}

/// A request for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How the names are to be held.
    pub how: How,
    /// The name; several for a lock on all of them.
    pub names: Vec<String>,
    /// How long to wait.
    pub patience: Patience,
    /// The ttl, if not that of the setting.
    pub ttl: Option<Millis>,
    /// Whether the lease ends after its ttl.
    pub fixed: bool,
    /// Whether the user may re-enter it.
    pub owned: bool,
    /// How long an expired name stays closed.
    pub delay: Millis,
    /// The future is dropped at this poll.
    pub dropped_at: Option<u32>,
}

/// How a name is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By one.
    Lock,
    /// By readers.
    Read,
    /// By one writer.
    Write,
    /// So many of [`PERMITS`].
    Permits(u32),
}

/// How many permits a semaphore has.
pub const PERMITS: u32 = 3;

/// How long to wait for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    Try,
    /// This long.
    Within(Millis),
    /// So many attempts, so far apart.
    Attempts(u32, Millis),
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Millis,
    /// What.
    pub kind: FaultKind,
    /// Which client or server, by its number.
    pub whom: u8,
    /// How much, where that is a question.
    pub by: u64,
    /// For how long.
    pub span: Millis,
}

macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $kind:ident $word:literal,)*) => {
        /// What goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its word in a schedule.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

fault_kinds! {
    /// Requests of a client do not arrive.
    Mute "mute",
    /// Replies to a client do not arrive; pushes do.
    Deaf "deaf",
    /// Pushes to a client do not arrive; replies do.
    Unrung "unrung",
    /// Requests of a client arrive twice, the second time late.
    Echo "echo",
    /// Messages of a client are late by up to so many milliseconds, each by
    /// another span: they overtake each other.
    Slow "slow",
    /// Pushes to a client are late by so much.
    LatePush "late-push",
    /// A server does nothing for a while; then it goes on with all that came.
    Stall "stall",
    /// A server restarts and remembers everything; what was under way is gone.
    Restart "restart",
    /// A server restarts and remembers nothing. It grants nothing for as long
    /// as the longest lease may run.
    Amnesia "amnesia",
    /// A server refuses, and says so.
    Refuse "refuse",
    /// A server has a shorter longest ttl from now on: it grants and confirms less
    /// than it is asked for.
    Curb "curb",
    /// The clock of a server stands still for a while: it was set back.
    Freeze "freeze",
    /// The clock of a server is fast by so many parts in a million.
    Rush "rush",
    /// Somebody has written another thing into the record `p0` and the lock `x0`.
    Poison "poison",
    /// A client does nothing for a while: SIGSTOP, or a long collection.
    Pause "pause",
    /// All connections of a client break.
    Cut "cut",
    /// A client dies.
    Kill "kill",
    /// The clock of a client is slow by so many parts in a million.
    Drift "drift",
}

impl FaultKind {
    /// The kind of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// The word for it where it is counted: on a wire a silence is a silence,
    /// whatever was meant to be unheard.
    #[must_use]
    pub const fn counted_as(self, stage: Stage) -> &'static str {
        match (self, stage) {
            (Self::Mute | Self::Deaf | Self::Unrung, Stage::Redis | Stage::Redlock(_)) => "silence",
            _ => self.word(),
        }
    }

    /// Whether it happens to a server.
    #[must_use]
    pub const fn hits_server(self) -> bool {
        use FaultKind::{Amnesia, Curb, Freeze, Poison, Refuse, Restart, Rush, Stall};
        matches!(self, Stall | Restart | Amnesia | Refuse | Curb | Freeze | Rush | Poison)
    }
}

impl Schedule {
    /// How many clients appear in it.
    #[must_use]
    pub fn clients(&self) -> u8 {
        self.steps.iter().map(|step| step.user.client + 1).max().unwrap_or(0)
    }

    /// When its last line begins.
    #[must_use]
    pub fn last(&self) -> Millis {
        let steps = self.steps.iter().map(|step| step.at);
        steps.chain(self.faults.iter().map(|fault| fault.at + fault.span)).max().unwrap_or(0)
    }

    /// All names that are asked for.
    #[must_use]
    pub fn names(&self) -> std::collections::BTreeSet<String> {
        let ask = |step: &Step| match &step.act {
            Act::Ask(ask) => ask.names.clone(),
            _ => Vec::new(),
        };
        self.steps.iter().flat_map(ask).collect()
    }
}
