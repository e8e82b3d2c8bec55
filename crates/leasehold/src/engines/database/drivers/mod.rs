//! One connection to a server, whatever its family.

mod address;
mod connection;
mod facts;
pub(super) mod fault;
#[cfg(feature = "mysql")]
mod mysql;
mod notice;
#[cfg(feature = "postgres")]
mod postgres;
mod settings;
mod transaction;
mod value;

pub(super) use self::connection::DatabaseConnection;
pub(super) use self::facts::ServerFacts;
pub(super) use self::notice::{Notice, NoticeSender};
pub(super) use self::settings::{ConnectionUse, DatabaseSettings};
pub(super) use self::value::{Reply, ReplyRow, SqlStep, Value};
