//! Locks in databases other than the lease table: the user's own transaction,
//! the user's own table, advisory locks. On a real PostgreSQL and MariaDB.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod advisory;
mod transaction;
mod unique;

use leasehold::sql::Dialect;
use leasehold_testkit::Server;
use leasehold_testkit::contest::{BOUND, Checked, LONG, until};
use mysql_async::prelude::Queryable;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A database, and a way to it that knows nothing of leases.
struct Database {
    server: Server,
    dialect: Dialect,
}

impl Database {
    fn postgres() -> Checked<Self> {
        Ok(Self { server: Server::postgres()?, dialect: Dialect::Postgres })
    }

    fn mariadb() -> Checked<Self> {
        Ok(Self { server: Server::mariadb()?, dialect: Dialect::Mysql })
    }

    /// One of each family.
    fn both() -> Checked<[Self; 2]> {
        Ok([Self::postgres()?, Self::mariadb()?])
    }

    /// The URL with these options.
    fn url(&self, options: &str) -> String {
        format!("{}?{options}", self.server.url())
    }

    /// Runs statements on a connection of their own; the first column of all rows.
    async fn run(&self, statements: &str) -> Checked<Vec<String>> {
        match self.dialect {
            Dialect::Postgres => {
                let said = self.client().await?.simple_query(statements).await?;
                let first = |message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                };
                Ok(said.into_iter().filter_map(first).collect())
            }
            _ => {
                let mut conn = self.conn().await?;
                let rows: Vec<mysql_async::Row> = conn.query(statements).await?;
                let first = |row: mysql_async::Row| row.get_opt::<String, _>(0)?.ok();
                Ok(rows.into_iter().filter_map(first).collect())
            }
        }
    }

    async fn number(&self, statement: &str) -> Checked<i64> {
        let rows = self.run(statement).await?;
        Ok(rows.first().ok_or("no row")?.parse()?)
    }

    async fn client(&self) -> Checked<tokio_postgres::Client> {
        let (client, driver) = tokio_postgres::connect(&self.server.url(), NoTls).await?;
        tokio::spawn(async move { drop(driver.await) });
        Ok(client)
    }

    async fn conn(&self) -> Checked<mysql_async::Conn> {
        Ok(mysql_async::Conn::new(mysql_async::Opts::from_url(&self.server.url())?).await?)
    }
}
