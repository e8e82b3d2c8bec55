//! What an opened engine promises, and what it costs.

use std::time::Duration;

/// Which modes an engine grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grants {
    /// `Exclusive` only.
    Exclusive,
    /// Also `Read` and `Write`.
    Shared,
    /// Also `Permits`.
    Counted,
}

/// How far fences can be trusted to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fencing {
    /// No order over all clients.
    None,
    /// Growing as long as a promoted server's clock is not far behind.
    Clocked,
    /// Growing, always.
    Strict,
}

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Order {
    /// Any.
    Any,
    /// First come, first served.
    Fifo,
}

/// What keeps a lease alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Liveness {
    /// Renewal before the ttl runs out.
    Ttl,
    /// A session that all leases of a client share.
    Session,
    /// An open connection: the server may end it before its ttl.
    Connection,
}

/// Whose clock decides that a lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timekeeper {
    /// The clock of this host, shared by everyone concerned: no drift.
    Host,
    /// The server's.
    Server,
    /// A majority of servers.
    Quorum,
}

/// How a waiter learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WakeUp {
    /// It asks again and again.
    Poll,
    /// It is told.
    Push,
}

/// Who can share a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reach {
    /// Tasks and threads of one process.
    Process,
    /// Processes of one host.
    Host,
    /// Hosts of a network.
    Network,
}

/// What leases and fences outlive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Survives {
    /// Nothing: they end with the process.
    Nothing,
    /// A restart of the engine.
    Restart,
    /// The loss of a machine.
    Failover,
}

/// What `inspect` can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lists {
    /// One name, if asked by name.
    ByName,
    /// All names of a namespace.
    Indexed,
}

/// Requests and connections, per event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Round trips of an uncontended acquire.
    pub acquire: u32,
    /// Round trips of a release.
    pub release: u32,
    /// Connections that each holder keeps for itself.
    pub connections_per_holder: u32,
    /// Connections that each waiter keeps for itself.
    pub connections_per_waiter: u32,
}

impl Cost {
    /// One trip each way and no connection of its own.
    pub const ONE_TRIP: Self =
        Self { acquire: 1, release: 1, connections_per_holder: 0, connections_per_waiter: 0 };
}

/// What an engine can store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The shortest ttl.
    pub ttl_min: Duration,
    /// The longest ttl.
    pub ttl_max: Duration,
    /// The largest number of permits on one name.
    pub permits_max: u32,
    /// The longest name in bytes.
    pub name_max: usize,
    /// How many leases one client can hold, where that is limited.
    pub holders_max: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_min: Duration::from_millis(10),
            ttl_max: Duration::from_secs(7 * 24 * 60 * 60),
            permits_max: 1_000_000,
            name_max: crate::name::NAME_MAX,
            holders_max: None,
        }
    }
}

/// What an opened engine promises: not of its scheme in general, but of this
/// server as found, with these options.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The word for the engine: also its feature, URL scheme and doc page.
    pub scheme: &'static str,
    /// Where it is, without secrets.
    pub endpoint: String,
    /// Which modes it grants.
    pub grants: Grants,
    /// How far its fences can be trusted.
    pub fencing: Fencing,
    /// In which order it serves waiters.
    pub order: Order,
    /// What keeps its leases alive.
    pub liveness: Liveness,
    /// Whose clock ends them.
    pub clock: Timekeeper,
    /// How waiters are woken.
    pub wake: WakeUp,
    /// Who can share its locks.
    pub reach: Reach,
    /// What its leases outlive.
    pub survives: Survives,
    /// What it can list.
    pub listing: Lists,
    /// Whether it can tell how the holder before ended.
    pub predecessor: bool,
    /// Whether it can keep an expired name closed (`lock_delay`).
    pub lock_delay: bool,
    /// Whether it can keep a released name closed (`hold_at_least`).
    pub keep_closed: bool,
    /// Whether it can turn a write lease into a read lease.
    pub convert: bool,
    /// Whether it can ask a holder to let go (`Eviction::asking`).
    pub revocation: bool,
    /// Whether a candidacy's value lies in its entry, where other software reads it: no
    /// record need say it.
    pub candidates_in_entries: bool,
    /// Whether its records are bare nodes or keys, which other software reads and
    /// writes: less is promised of them, see the page of the engine.
    pub raw_records: bool,
    /// Requests and connections.
    pub cost: Cost,
    /// What it can store.
    pub limits: Limits,
}

impl Profile {
    /// The weakest promises; an engine raises what it can keep.
    #[must_use]
    pub fn new(scheme: &'static str, endpoint: impl Into<String>) -> Self {
        Self {
            scheme,
            endpoint: endpoint.into(),
            grants: Grants::Exclusive,
            fencing: Fencing::None,
            order: Order::Any,
            liveness: Liveness::Ttl,
            clock: Timekeeper::Server,
            wake: WakeUp::Poll,
            reach: Reach::Process,
            survives: Survives::Nothing,
            listing: Lists::ByName,
            predecessor: false,
            lock_delay: false,
            keep_closed: false,
            convert: false,
            revocation: false,
            candidates_in_entries: false,
            raw_records: false,
            cost: Cost::ONE_TRIP,
            limits: Limits::default(),
        }
    }

    /// How much of a granted ttl is given up because two clocks may run at
    /// different speeds.
    #[must_use]
    pub fn drift(&self, ttl: Duration) -> Duration {
        match self.clock {
            Timekeeper::Host => Duration::ZERO,
            Timekeeper::Server | Timekeeper::Quorum => ttl / 100 + Duration::from_millis(2),
        }
    }
}

/// Something a user may require of an engine; see [`Opening::require`].
///
/// Each of the promises above can be required: an engine that promises as much
/// or more will do.
///
/// [`Opening::require`]: crate::Opening::require
pub trait Promise: std::fmt::Debug {
    /// Whether an engine with this profile keeps it.
    fn is_kept_by(&self, profile: &Profile) -> bool;
}

macro_rules! promises {
    ($($promise:ty => $field:ident),*) => {
        $(impl Promise for $promise {
            fn is_kept_by(&self, profile: &Profile) -> bool {
                profile.$field >= *self
            }
        })*
    };
}

promises!(
    Grants => grants, Fencing => fencing, Order => order, WakeUp => wake, Reach => reach,
    Survives => survives, Lists => listing
);

/// What the locks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To save work: two holders at once would be a waste, not a disaster.
    Efficiency,
    /// To prevent harm: leases must survive a restart of the engine, and fences
    /// must grow so that a resource can refuse a late writer.
    Correctness,
}

impl Promise for Purpose {
    fn is_kept_by(&self, profile: &Profile) -> bool {
        match self {
            Self::Efficiency => true,
            // What ends with the process cannot be outlived by a late writer of
            // another one.
            Self::Correctness => {
                profile.fencing >= Fencing::Clocked
                    && (profile.reach == Reach::Process || profile.survives >= Survives::Restart)
            }
        }
    }
}
