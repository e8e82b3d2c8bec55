//! The tables of the engines that have some, as text.

use crate::error::{Error, Result};
use crate::sql::Dialect;

/// The statements that create the tables of a database engine, for those who run
/// their migrations by hand; `prefix` and `schema` as in the engine's URL.
///
/// # Errors
///
/// `Unsupported` if the engine is not compiled in; `Invalid` for a prefix or
/// schema that is none, or that the database does not have.
pub fn schema(dialect: Dialect, prefix: Option<&str>, schema: Option<&str>) -> Result<String> {
    match dialect {
        Dialect::Sqlite if prefix.or(schema).is_some() => {
            Err(Error::invalid("sqlite has a file of its own: no prefix, no schema"))
        }
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => Ok(super::sqlite::schema::text()),
        #[cfg(not(feature = "sqlite"))]
        Dialect::Sqlite => Err(super::not_built(dialect.syntax().word())),
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        _ => super::database::schema_text(dialect, prefix, schema),
        #[cfg(not(any(feature = "postgres", feature = "mysql")))]
        _ => Err(super::not_built(dialect.syntax().word())),
    }
}
