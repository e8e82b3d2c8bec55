//! The client: the nodes, and what is known of the leases on them.

use std::sync::Arc;
use std::time::Duration;

use super::bid::Rounds;
use super::leases::QuorumLeases;
use super::nodes::Nodes;
use crate::engine::Profile;

/// What verbs share.
#[derive(Debug)]
pub(super) struct QuorumClient {
    pub(super) table: Arc<Nodes>,
    pub(super) rounds: Rounds,
    pub(super) leases: QuorumLeases,
    /// How long a waiter pauses at most.
    pub(super) pause: Duration,
    pub(super) profile: Profile,
}

impl QuorumClient {
    /// No lease runs longer than nodes may be trusted to remember it, whatever
    /// is asked for.
    pub(super) fn within(&self, ttl: Duration) -> Duration {
        ttl.min(self.profile.limits.ttl_max)
    }
}
