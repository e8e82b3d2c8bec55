//! The fate of a round.

/// What becomes of the claim, as each node's task has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not decided yet.
    Open,
    /// To be granted with this fence, once these nodes have raised their
    /// numbers: a bit for each.
    Raise { fence: u64, nodes: u64 },
    /// Granted. A node that answers late keeps the lease and its number is
    /// raised, so that the lease stands on more nodes than it has to.
    Granted(u64),
    /// Given up: whatever a node has of it is removed.
    GivenUp,
    /// Granted, and ended since. Who ended it asks the nodes himself, but
    /// cannot reach what was still under way.
    Ended,
}
