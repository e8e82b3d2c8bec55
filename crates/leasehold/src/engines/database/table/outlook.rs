//! What a waiter knows of its name.

use crate::clock::Moment;
use crate::engines::kit::waiters::{self, QueueOutlook};

/// The tickets of one client of a table.
pub(super) type Tickets = waiters::Tickets<Outlook>;

/// What a waiter knows of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outlook {
    /// When the name may open although nobody says so, by our clock.
    pub(super) look_at: Moment,
    /// The newest fence then.
    pub(super) floor: u64,
}

impl QueueOutlook for Outlook {
    fn floor(&self) -> u64 {
        self.floor
    }
}
