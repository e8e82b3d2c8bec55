//! The channel on which clients tell each other of evictions.
//!
//! A message that is lost does no harm: the holder hears at its next renewal
//! that the lease is gone, though not from whom.

use crate::claim::LeaseId;
use crate::engine::{Event, Eviction, Loss};

pub(super) const CHANNEL: &[u8] = b"leasehold:evictions";
const SEPARATOR: char = '\x1f';

/// What is said of an evicted lease.
pub(super) fn message(id: LeaseId, eviction: &Eviction) -> String {
    format!("{}{SEPARATOR}{}{SEPARATOR}{}", id.to_uuid(), eviction.actor, eviction.reason)
}

/// What a message says.
pub(super) fn event(message: &[u8]) -> Option<Event> {
    let mut parts = std::str::from_utf8(message).ok()?.splitn(3, SEPARATOR);
    let id = LeaseId::from_uuid(parts.next()?)?;
    let (actor, reason) = (parts.next()?.into(), parts.next()?.into());
    Some(Event::TicketLost(id, Loss::Evicted { actor, reason }))
}
