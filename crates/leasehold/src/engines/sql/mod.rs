//! Leases in tables.
//!
//! A [`link`] reaches a server, whatever its family; a strategy decides what a
//! lease is made of there. SQLite is a file and needs no way to it.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod advisory;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod checkup;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod link;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod plans;
#[cfg(all(test, any(feature = "postgres", feature = "mysql")))]
mod server;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod table;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod unique;

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) use strategy::{open, schema_text};

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod strategy {
    //! Which strategy a URL asks for.

    use std::sync::Arc;

    use super::link::{Dialect, Link, Settings};
    use super::{advisory, table, unique};
    use crate::clock::Clock;
    use crate::engine::Engine;
    use crate::error::{Error, Result};
    use crate::url::Url;

    /// What a lease is made of.
    enum Strategy {
        /// Rows of our own: every mode, queue, fence.
        Table,
        /// The server's advisory locks.
        Advisory,
        /// A row in the user's table.
        Unique,
    }

    /// Opens the server that a URL names, with the strategy that it asks for.
    pub(in crate::engines) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
        let strategy = strategy(url)?;
        let link = Link::open(&Settings::from_url(url)?, clock.clone()).await?;
        match strategy {
            Strategy::Table => table::open(link, url, clock).await,
            Strategy::Advisory => advisory::open(link, url, clock).await,
            Strategy::Unique => unique::open(link, url, clock).await,
        }
    }

    /// The tables of the strategy that has some, as text.
    pub(in crate::engines) fn schema_text(
        dialect: crate::sql::Dialect,
        prefix: Option<&str>,
        schema: Option<&str>,
    ) -> Result<String> {
        let dialect = match dialect {
            crate::sql::Dialect::Mysql => Dialect::Mysql,
            _ => Dialect::Postgres,
        };
        table::schema_text(dialect, prefix, schema)
    }

    fn strategy(url: &Url) -> Result<Strategy> {
        match url.options.get("strategy")? {
            None | Some("table") => Ok(Strategy::Table),
            Some("advisory") => Ok(Strategy::Advisory),
            Some("unique") => Ok(Strategy::Unique),
            Some(_) => Err(Error::invalid("option \"strategy\" takes table, advisory or unique")),
        }
    }
}
