//! Verdicts: what an engine says to a claim, at once or later.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::record::RawRecord;
use crate::clock::Moment;

/// The answer to a claim.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The lease is ours.
    Granted(Grant),
    /// It is not.
    Busy(Busy),
}

impl Verdict {
    /// The same verdict; only fences above this one can be granted to its place.
    #[must_use]
    pub fn above(mut self, floor: u64) -> Self {
        if let Self::Busy(Busy { place: Some(place), .. }) = &mut self {
            *place = place.above(floor);
        }
        self
    }
}

/// A lease, as granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// The fencing token.
    pub fence: u64,
    /// How long the lease runs from `sent_at`; may be less than asked for.
    pub ttl: Duration,
    /// When the request that last proved it alive left, stamped by the engine
    /// before the bytes went out.
    pub sent_at: Moment,
    /// How the holder before ended.
    pub predecessor: Predecessor,
    /// The record of the same name, if the claim asked for it and there is one.
    pub record: Option<RawRecord>,
}

impl Grant {
    /// A grant with no known predecessor.
    #[must_use]
    pub const fn new(fence: u64, ttl: Duration, sent_at: Moment) -> Self {
        Self { fence, ttl, sent_at, predecessor: Predecessor::Unknown, record: None }
    }

    /// The same grant with what is known of the holder before.
    #[must_use]
    pub const fn following(mut self, predecessor: Predecessor) -> Self {
        self.predecessor = predecessor;
        self
    }
}

/// How the holder before ended: the signal of a robust mutex. After `Expired`
/// or `Evicted` the protected state may be half changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Predecessor {
    /// Nobody held the name for as long as the engine remembers; a clean end
    /// may be forgotten at once.
    None,
    /// It released the lease.
    Released,
    /// It died, or lost touch for longer than its ttl.
    Expired,
    /// An operator took the lease away.
    Evicted,
    /// The engine cannot tell.
    Unknown,
}

/// Why a claim was not granted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Busy {
    /// Who holds the name, where the engine can tell.
    pub holder: Option<Holder>,
    /// When it is worth to look again, even if nothing wakes the waiter:
    /// wherever time passes only when somebody asks. `None` where the server
    /// tells.
    pub recheck_in: Option<Duration>,
    /// The place in the queue, if the claim has joined one.
    pub place: Option<Place>,
    /// The record that is there, if the claim was to be granted only without.
    pub found: Option<RawRecord>,
}

impl Busy {
    /// Busy, with no more to say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Not asked any further, because this record is there.
    #[must_use]
    pub fn found(record: RawRecord) -> Self {
        Self { found: Some(record), ..Self::default() }
    }
}

/// A place in a queue. It is kept alive by `renew`, like a lease, and a lease
/// handed to it ends when the place would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// How long the place is kept from `sent_at`.
    pub ttl: Duration,
    /// When the request that last proved it alive left.
    pub sent_at: Moment,
    /// The largest fence that was given out for this name, or for a name beside
    /// it, before the engine looked at this place. A grant up to here was made
    /// to an earlier place, which has ended. Zero where the engine pushes no
    /// grants, or none can be late.
    pub floor: u64,
}

impl Place {
    /// A place kept for `ttl` from `sent_at`.
    #[must_use]
    pub const fn new(ttl: Duration, sent_at: Moment) -> Self {
        Self { ttl, sent_at, floor: 0 }
    }

    /// The same place, to which only fences above this one can be granted.
    #[must_use]
    pub const fn above(mut self, floor: u64) -> Self {
        self.floor = floor;
        self
    }
}

/// Who holds a name, as far as others may know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's label.
    pub label: Arc<str>,
    /// The fence of its lease, where the engine shows it.
    pub fence: Option<u64>,
    /// How long it has held the name.
    pub held_for: Option<Duration>,
    /// How long its lease runs if it is not renewed.
    pub time_left: Option<Duration>,
}

impl Holder {
    /// A holder of whom only the label is known.
    #[must_use]
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self { label: label.into(), fence: None, held_for: None, time_left: None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        if let Some(fence) = self.fence {
            write!(f, " (fence {fence})")?;
        }
        match self.held_for {
            Some(span) => write!(f, " for {:?}", rounded(span)),
            None => Ok(()),
        }
    }
}

/// For people: no more digits than they can use.
pub(crate) fn rounded(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// What ended a wait.
#[derive(Clone, Debug)]
pub enum Wake {
    /// The releaser handed the lease to this ticket, which has been told its
    /// place. The lease runs as long as the place would have: from the last
    /// confirmed join or refresh. It brings no record: the releaser does not
    /// know who asked for one, so a holder that wants it loads it now, under
    /// the lease, where nobody else changes it.
    Granted {
        /// The fencing token.
        fence: u64,
        /// How the holder before ended.
        predecessor: Predecessor,
    },
    /// It is worth to claim again, or the wait is over.
    Look,
}
