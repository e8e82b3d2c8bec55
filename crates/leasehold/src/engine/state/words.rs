//! What the core is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use super::super::inspect::Target;
use crate::claim::{
    Busy, Claim, Ending, Grant, Holder, LeaseId, Mode, Place, Predecessor, Released, Renewal,
    Verdict,
};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};

/// Who keeps a seat alive, as the engine numbers its sessions; see
/// [`State::follow`](super::State::follow).
pub(crate) type SessionId = u64;

/// What an engine wants done with a name.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a verb is made, served and gone")]
pub(crate) enum Verb {
    /// Grant it, or wait in the queue.
    Acquire { claim: Box<Claim>, session: SessionId },
    /// Keep a lease or a place alive.
    Renew { id: LeaseId, ttl: Duration },
    /// End a lease or leave the queue.
    Release { id: LeaseId, ending: Ending },
    /// Turn a write lease into a read lease.
    Convert { id: LeaseId, to: Mode },
    /// Take leases away.
    Evict { target: Target, remark: Arc<str> },
    /// Something is to go when this lease ends, however it ends.
    Bind { id: LeaseId },
    /// Let time pass.
    Tick,
}

/// What came of a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lease is yours.
    Granted { fence: u64, ttl: Duration, predecessor: Predecessor },
    /// It is not; `placed` is how long the place in the queue is kept.
    Busy { holder: Option<Holder>, recheck_in: Duration, placed: Option<Duration> },
    /// The name is in use as another kind of lock.
    OtherKind(Mode),
    /// Renewed or converted.
    Held { ttl: Duration },
    /// Still in the queue.
    Queued { ttl: Duration },
    /// Neither held nor queued.
    Gone,
    /// It was there and is not any more.
    Released,
    /// These leases were taken away.
    Evicted(Vec<LeaseId>),
    /// Time has passed.
    Ticked,
}

/// What others have to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// This waiter now holds the name.
    HandedOver { id: LeaseId, session: SessionId, fence: u64, predecessor: Predecessor },
    /// This lease was taken away.
    Evicted { id: LeaseId, session: SessionId },
    /// This lease, to which something is bound, has ended.
    Ended { id: LeaseId },
}

impl Answer {
    /// As the answer to a claim that left at `sent_at`.
    pub(crate) fn into_verdict(self, sent_at: Moment) -> Result<Verdict> {
        match self {
            Self::Granted { fence, ttl, predecessor } => {
                Ok(Verdict::Granted(Grant::new(fence, ttl, sent_at).following(predecessor)))
            }
            Self::Busy { holder, recheck_in, placed } => {
                let place = placed.map(|ttl| Place::new(ttl, sent_at));
                Ok(Verdict::Busy(Busy { holder, recheck_in: Some(recheck_in), place, found: None }))
            }
            Self::OtherKind(other) => Err(Error::invalid(format!(
                "the name is in use as {other}, which does not mix with other kinds of lock: \
                 use another name, or the same kind of lock everywhere"
            ))),
            other => Err(other.out_of_place()),
        }
    }

    /// As the answer to a renewal that left at `sent_at`.
    pub(crate) fn into_renewal(self, sent_at: Moment) -> Renewal {
        match self {
            Self::Held { ttl } => Renewal::Held { ttl, sent_at },
            Self::Queued { ttl } => Renewal::Queued(Place::new(ttl, sent_at)),
            Self::Gone => Renewal::Gone,
            other => Renewal::Unknown(other.out_of_place()),
        }
    }

    /// As the answer to a conversion that left at `sent_at`.
    pub(crate) fn into_converted(self, sent_at: Moment) -> Result<Renewal> {
        match self {
            Self::OtherKind(held) => Err(Error::invalid(format!(
                "a {held} lease cannot be converted: only write to read, \
                 because two readers that both want to write would wait for each other"
            ))),
            other => Ok(other.into_renewal(sent_at)),
        }
    }

    /// As the answer to a release.
    pub(crate) fn into_released(self) -> Result<Released> {
        match self {
            Self::Released => Ok(Released::Released),
            Self::Gone => Ok(Released::AlreadyLost),
            other => Err(other.out_of_place()),
        }
    }

    fn out_of_place(&self) -> Error {
        Error::new(ErrorKind::Unexpected, format!("the core gave a wrong answer: {self:?}"))
    }
}
