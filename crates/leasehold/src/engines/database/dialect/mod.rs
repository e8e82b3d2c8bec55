//! What differs between the families of servers: a folder for each of them.

pub(super) mod advisory;
mod family;
mod mysql;
mod postgres;
pub(super) mod table;
pub(super) mod unique;

pub(super) use self::family::Family;
use self::mysql::MysqlFamily;
use self::postgres::PostgresFamily;
use crate::sql::Dialect;

/// Where a server has nothing shorter, a client that pauses inside a
/// transaction, or has vanished, is cut off after so many seconds. More than the
/// time between two looks at a connection.
pub(crate) const SILENCE: u64 = 15;

pub(super) static POSTGRES: &dyn Family = &PostgresFamily;
pub(super) static MYSQL: &dyn Family = &MysqlFamily;

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
