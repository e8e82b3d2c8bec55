//! The nouns that cross the border between the library and an engine.

mod ending;
pub(crate) mod id;
mod mode;
mod owner;
mod record;
mod verdict;
mod wants;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::Error;
use crate::name::Name;

pub use ending::{Ending, Released};
pub use id::LeaseId;
pub use mode::Mode;
pub use owner::{LABEL_MAX, Owner};
pub use record::{Expect, RawRecord, Store, VALUE_MAX};
pub use verdict::{Busy, Grant, Holder, Place, Predecessor, Verdict, Wake};
pub use wants::Wants;

/// A lease is renewed when this part of its ttl has gone since it was last
/// confirmed: two renewals may fail before it ends.
pub(crate) const RENEW_FRACTION: u32 = 3;

pub(crate) use owner::OwnerId;
pub(crate) use verdict::rounded;

/// The longest meta text in bytes.
pub const META_MAX: usize = 1024;

/// The longest span that anything is kept closed or remembered: a hundred years.
/// Every store can write it down, and add it to the present.
pub const SPAN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A lease id with what it stands for; known before any reply, queued or held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ticket {
    /// The secret of the lease.
    pub id: LeaseId,
    /// What is locked.
    pub name: Name,
    /// How.
    pub mode: Mode,
}

impl Ticket {
    /// A ticket with a fresh id.
    #[must_use]
    pub fn new(name: Name, mode: Mode) -> Self {
        Self { id: LeaseId::random(), name, mode }
    }

    /// The same lease in another mode, after `convert`.
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// Whether a claim that cannot be granted now joins the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Answer at once and leave nothing behind.
    Try,
    /// Wait in the queue, until this moment at most.
    Wait {
        /// The end of the wait; [`Moment::NEVER`] for no limit.
        until: Moment,
    },
}

/// What a client asks an engine for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Lease id, name and mode.
    pub ticket: Ticket,
    /// Who asks.
    pub owner: Owner,
    /// Free at most this long after the holder's last sign of life.
    pub ttl: Duration,
    /// How much longer an expired (not a released) name stays closed.
    pub lock_delay: Duration,
    /// A text for people, shown by `show`.
    pub meta: Option<Arc<str>>,
    /// Wait, or not.
    pub stance: Stance,
    /// Exact arrival order over all processes is required, not just usual.
    pub fair: bool,
    /// Whether the library will renew it. A fixed lease ends after its ttl
    /// whatever else the client keeps alive.
    pub renewed: bool,
    /// Whether it is about the record of the same name as well.
    pub wants: Wants,
    /// The claim is a candidacy in an election, and this is what it proposes: `None` is
    /// a lock. A layout that is shared with other software may keep the two apart; see
    /// [`Profile::candidates_in_entries`](crate::Profile::candidates_in_entries).
    pub candidate: Option<Arc<[u8]>>,
}

impl Claim {
    /// A claim that tries, with nothing special about it.
    #[must_use]
    pub const fn new(ticket: Ticket, owner: Owner, ttl: Duration) -> Self {
        Self {
            ticket,
            owner,
            ttl,
            lock_delay: Duration::ZERO,
            meta: None,
            stance: Stance::Try,
            fair: false,
            renewed: true,
            wants: Wants::Lease,
            candidate: None,
        }
    }
}

/// One ticket to keep alive, in a batch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refresh {
    /// The ticket, queued or held.
    pub ticket: Ticket,
    /// Its ttl from now on, within the limits of a claim; less than the shortest
    /// only for what is left of a fixed lease.
    pub ttl: Duration,
    /// Its lock delay.
    pub lock_delay: Duration,
    /// As in the claim.
    pub renewed: bool,
}

impl Refresh {
    /// Keeps `ticket` alive for `ttl`.
    #[must_use]
    pub const fn new(ticket: Ticket, ttl: Duration) -> Self {
        Self { ticket, ttl, lock_delay: Duration::ZERO, renewed: true }
    }
}

/// What became of one ticket of a batch.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// Held, for `ttl` from `sent_at`, whatever the caller believed before: the
    /// deadline follows, down as well as up. What others were told they may
    /// count on is `ttl`, not what was asked for.
    Held {
        /// How long the lease runs.
        ttl: Duration,
        /// When the request left.
        sent_at: Moment,
    },
    /// Still in the queue.
    Queued(Place),
    /// Neither held nor queued.
    Gone,
    /// No answer for this ticket.
    Unknown(Error),
}

impl Renewal {
    /// The same answer; only fences above this one can be granted to its place.
    #[must_use]
    pub fn above(self, floor: u64) -> Self {
        match self {
            Self::Queued(place) => Self::Queued(place.above(floor)),
            other => other,
        }
    }
}
