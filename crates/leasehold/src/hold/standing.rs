//! How a lease stands, and how it stood when it was given back.

use crate::engine::Loss;

/// How a lease stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Ours, and renewed in time.
    Held,
    /// Ours until its deadline, but the last renewal failed.
    Jeopardy,
    /// Not ours any more.
    Lost(Loss),
    /// Given back.
    Released,
}

/// How a hold stood when it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorStanding {
    /// Not granted yet, as far as we know.
    Asked,
    /// Ours.
    Held,
    /// Past its deadline, and nobody had noticed.
    Overdue,
    /// Lost or given back before.
    Ended,
}
