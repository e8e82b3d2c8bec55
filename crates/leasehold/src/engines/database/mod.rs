//! Leases on a database server.
//!
//! A [`pool`] of connections reaches it, by the [`drivers`] of its family; a
//! strategy ([`table`], [`advisory`], [`unique`]) decides what a lease is made of
//! there; the [`dialect`] knows what differs between families.

mod advisory;
mod checkup;
mod dialect;
mod drivers;
mod plans;
mod pool;
#[cfg(test)]
mod server;
mod table;
mod unique;

use std::sync::Arc;

use self::drivers::DatabaseSettings;
use self::pool::Pool;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::sql::Dialect;
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
pub(super) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let strategy = strategy(url)?;
    let pool = Pool::open(&DatabaseSettings::from_url(url)?, clock.clone()).await?;
    match strategy {
        Strategy::Table => table::open(pool, url, clock).await,
        Strategy::Advisory => advisory::open(pool, url, clock).await,
        Strategy::Unique => unique::open(pool, url, clock).await,
    }
}

/// The tables of the strategy that has some, as text.
pub(super) fn schema_text(
    dialect: Dialect,
    prefix: Option<&str>,
    schema: Option<&str>,
) -> Result<String> {
    table::schema_text(dialect::of(dialect), prefix, schema)
}

fn strategy(url: &Url) -> Result<Strategy> {
    match url.options.get("strategy")? {
        None | Some("table") => Ok(Strategy::Table),
        Some("advisory") => Ok(Strategy::Advisory),
        Some("unique") => Ok(Strategy::Unique),
        Some(_) => Err(Error::invalid("option \"strategy\" takes table, advisory or unique")),
    }
}
