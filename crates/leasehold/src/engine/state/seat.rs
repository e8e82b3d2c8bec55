//! Those who hold a name or wait for it, and the one who was last.

use std::sync::Arc;
use std::time::Duration;

use super::super::inspect::{Held, Last, Queued, Target};
use super::words::{Answer, SessionId};
use crate::claim::{Claim, Ending, Holder, LeaseId, Mode, Owner, Predecessor};
use crate::clock::Moment;

/// A claim that holds or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub(super) struct Seat {
    pub(super) id: LeaseId,
    pub(super) mode: Mode,
    pub(super) owner: Owner,
    pub(super) ttl: Duration,
    pub(super) delay: Duration,
    pub(super) meta: Option<Arc<str>>,
    /// What keeps it alive beside its own expiry; 0 for nothing.
    pub(super) session: SessionId,
    pub(super) since: Moment,
    pub(super) expires: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub(super) struct Lease {
    pub(super) seat: Seat,
    pub(super) fence: u64,
    pub(super) predecessor: Predecessor,
    /// Whether anything goes with it.
    #[cfg_attr(
        any(feature = "sqlite", feature = "postgres", feature = "mysql"),
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub(super) bound: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub(super) struct Ended {
    pub(super) owner: Owner,
    pub(super) fence: u64,
    pub(super) how: Predecessor,
    pub(super) at: Moment,
    pub(super) remark: Option<Arc<str>>,
    pub(super) linger: Duration,
}

impl Seat {
    pub(super) fn new(claim: &Claim, session: SessionId, now: Moment) -> Self {
        Self {
            id: claim.ticket.id,
            mode: claim.ticket.mode,
            owner: claim.owner.clone(),
            ttl: claim.ttl,
            delay: claim.lock_delay,
            meta: claim.meta.clone(),
            session,
            since: now,
            expires: now.after(claim.ttl),
        }
    }

    /// When it expired, given that it did. A session that is gone may not say
    /// when; then it is now, so that no lock delay is cut short.
    pub(super) fn ended(&self, now: Moment) -> Moment {
        if self.expires < self.since { now } else { self.expires }
    }

    pub(super) fn queued(&self, now: Moment) -> Queued {
        let label = Arc::from(self.owner.label());
        Queued { label, mode: self.mode, waiting_for: Some(now.since(self.since)) }
    }
}

impl Lease {
    pub(super) fn is(&self, target: Target) -> bool {
        match target {
            Target::Fence(fence) => self.fence == fence,
            Target::Lease(id) => self.seat.id == id,
            Target::All => true,
        }
    }

    /// What the next one is told. Who has not seen its own grant has not heard
    /// how the one before ended.
    pub(super) fn ends_as(&self, ending: &Ending) -> Predecessor {
        match self.predecessor {
            _ if ending.cut_off => Predecessor::Expired,
            before if ending.unseen && before != Predecessor::None => before,
            _ => Predecessor::Released,
        }
    }

    pub(super) fn granted(&self, now: Moment) -> Answer {
        let ttl = self.seat.expires.since(now);
        Answer::Granted { fence: self.fence, ttl, predecessor: self.predecessor }
    }

    pub(super) fn holder(&self, now: Moment) -> Holder {
        let mut holder = Holder::new(self.seat.owner.label());
        holder.fence = Some(self.fence);
        holder.held_for = Some(now.since(self.seat.since));
        holder.time_left = Some(self.seat.expires.since(now));
        holder
    }

    pub(super) fn held(&self, now: Moment) -> Held {
        Held {
            label: Arc::from(self.seat.owner.label()),
            mode: self.seat.mode,
            fence: Some(self.fence),
            held_for: Some(now.since(self.seat.since)),
            time_left: Some(self.seat.expires.since(now)),
            meta: self.seat.meta.clone(),
        }
    }
}

impl Ended {
    pub(super) fn shown(&self, now: Moment) -> Last {
        Last {
            label: Arc::from(self.owner.label()),
            fence: self.fence,
            ended: self.how,
            ago: now.since(self.at),
            remark: self.remark.clone(),
        }
    }
}
