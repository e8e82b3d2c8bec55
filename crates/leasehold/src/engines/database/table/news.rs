//! What one client tells another.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::claim::{LeaseId, Predecessor};
use crate::engine::Eviction;
use crate::error::{Error, ErrorKind, Result};

/// Says that a record was changed which somebody watches.
pub(super) const CHANGED: &str = "changed";

/// What became of a ticket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum TicketNews {
    /// It was handed the lease.
    Granted { lease: LeaseId, fence: u64, predecessor: Predecessor },
    /// It was taken away.
    Evicted { lease: LeaseId, why: EvictionNotice },
    /// The time of what it held with this fence was up, and it was given away.
    Over { lease: LeaseId, fence: u64 },
}

/// Who took a lease away, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvictionNotice {
    pub(super) actor: Arc<str>,
    pub(super) reason: Arc<str>,
}

impl EvictionNotice {
    pub(super) fn new(eviction: &Eviction) -> Self {
        Self { actor: Arc::clone(&eviction.actor), reason: Arc::clone(&eviction.reason) }
    }

    pub(super) fn text(&self) -> Result<String> {
        text(self)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl TicketNews {
    pub(super) fn text(&self) -> Result<String> {
        text(self)
    }

    /// What is no news of ours is nobody's: anyone may send.
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

fn text(value: &impl Serialize) -> Result<String> {
    let failed = |cause| Error::new(ErrorKind::Unexpected, "no text").caused_by(cause);
    serde_json::to_string(value).map_err(failed)
}
