//! What everything else asks of a family.

use std::fmt;

use super::advisory::AdvisoryFamily;
use super::table::TableFamily;
use super::unique::UniqueFamily;
use crate::sql::Dialect;

/// The family of a server. Nobody else asks which one it is.
pub(crate) trait Family:
    TableFamily + AdvisoryFamily + UniqueFamily + fmt::Debug + Sync
{
    /// The SQL that it speaks.
    fn dialect(&self) -> Dialect;

    /// The scheme.
    fn word(&self) -> &'static str {
        self.dialect().syntax().word()
    }

    fn port(&self) -> u16;

    /// Whether a statement may be sent before the last was answered.
    fn is_pipelined(&self) -> bool;

    /// Has a session hear what is said on a channel, where there are some.
    fn listen(&self, channel: &str) -> Option<String>;

    /// What a server is asked by doctor: names and values, as text. Of settings it
    /// is what a new session would get, not what ours was told.
    fn facts(&self) -> &'static str;

    /// Microseconds since 1970 by the server's clock.
    fn clock(&self) -> &'static str;

    /// The oldest version that locks are tested with, of the product that this
    /// version is one of.
    fn oldest(&self, version: &str) -> (&'static str, (u32, u32));

    /// A row if a table is there; takes its name.
    fn finds_table(&self) -> &'static str;
}
