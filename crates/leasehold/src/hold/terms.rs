//! Terms: what was agreed for a ticket.

use std::time::Duration;

/// What was agreed for a ticket, beside its ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) hold_at_least: Duration,
}
