//! What the servers hold, whoever they are.

use super::entry::Entry;
use crate::schedule::Millis;

/// How a lease stands at its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// As its user believes.
    Held,
    /// Nobody can tell.
    Unknown,
    /// Not as its user believes; this is what they hold.
    Missing(String),
}

/// What the servers of a run know.
pub trait Truth {
    /// How this lease stands.
    fn stand(&self, entry: &Entry, now: Millis) -> Stand;

    /// Whether a server still has this very grant.
    fn has(&self, entry: &Entry) -> bool;

    /// A request for more than the servers allow, if there was one.
    fn overlong(&self) -> Option<String>;

    /// How many leases with this label releases have ended, server by server;
    /// nothing where that is not known.
    fn released(&self, label: &str) -> Vec<u32>;

    /// Whether a server has lost what it had, so that records prove nothing.
    fn has_forgotten(&self) -> bool;
}
