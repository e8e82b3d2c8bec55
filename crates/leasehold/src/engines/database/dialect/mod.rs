//! What differs between the families of servers: a folder for each of them.

pub(super) mod advisory;
mod mysql;
mod postgres;
pub(super) mod table;
pub(super) mod unique;

use std::fmt;

use self::advisory::AdvisoryFamily;
use self::mysql::MysqlFamily;
use self::postgres::PostgresFamily;
use self::table::TableFamily;
use self::unique::UniqueFamily;
use crate::sql::Dialect;

/// Where a server has nothing shorter, a client that pauses inside a
/// transaction, or has vanished, is cut off after so many seconds. More than the
/// time between two looks at a connection.
pub(crate) const SILENCE: u64 = 15;

pub(super) static POSTGRES: &dyn Family = &PostgresFamily;
pub(super) static MYSQL: &dyn Family = &MysqlFamily;

/// The family of a server. Nobody else asks which one it is.
pub(crate) trait Family:
    TableFamily + AdvisoryFamily + UniqueFamily + fmt::Debug + Sync
{
    /// The SQL that it speaks.
    fn dialect(&self) -> Dialect;

    /// The scheme.
    fn word(&self) -> &'static str;

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

/// The family that a scheme names.
pub(super) fn of_scheme(scheme: &str) -> &'static dyn Family {
    if scheme.starts_with("postgres") { POSTGRES } else { MYSQL }
}

/// The family that speaks this SQL.
pub(super) fn of(dialect: Dialect) -> &'static dyn Family {
    match dialect {
        Dialect::Mysql => MYSQL,
        _ => POSTGRES,
    }
}
