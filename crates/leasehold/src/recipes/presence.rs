//! Presence: one lease that lives as long as this client, for all records that do.
//!
//! Whoever is a member of a hundred groups renews one lease, not a hundred. It is
//! taken with the first record that is bound to it, and goes with the last.

use std::sync::Arc;
use std::time::Duration;

use super::request_builder::RequestBuilder;
use crate::claim::{LeaseId, Mode};
use crate::error::Result;
use crate::guard::Guard;
use crate::locks::Locks;

/// What the names of these leases begin with; what follows is random.
const PREFIX: &str = "!presence/";

/// The lease that stands for this client: free at most `ttl` after its last sign of
/// life.
pub(super) async fn presence(locks: &Locks, ttl: Duration, label: &str) -> Result<Arc<Guard>> {
    let kind = (locks.own_namespace().clone(), ttl);
    locks.presences().get_or_begin(kind, begin(locks, ttl, label)).await
}

async fn begin(locks: &Locks, ttl: Duration, label: &str) -> Result<Guard> {
    let name = format!("{PREFIX}{:032x}", LeaseId::random().to_bits());
    let mut builder = RequestBuilder::new(locks, &name);
    builder.terms.ttl = ttl;
    builder.owner = builder.owner.labelled(label);
    builder.lock(Mode::Exclusive).await
}
