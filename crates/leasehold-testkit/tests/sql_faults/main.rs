//! What can go wrong with a PostgreSQL or MariaDB, each as it really happens.
//! The tests name the faults by these numbers. Files without a folder are
//! here; `links`, `table` and `strategies/` are the tests beside this one
//! (`sql_links.rs`, `sql_table.rs`, `sql_strategies/`), `engine/` is
//! `engines/database/` and `engines/sqlite/` of the library.
//!
//! | | fault | file |
//! |---|---|---|
//! | P1 | sessions are ended | `storm`, `strategies/advisory`, `engine/link/tests` |
//! | P2 | the server ends sessions that rest | `sessions` |
//! | P3 | a pooler gives one session to many | `links`, `strategies/advisory` |
//! | P4 | a lock leaks into a pool | `strategies/advisory`, `engine/link/tests` |
//! | P5 | more wait than there are connections | `crowd`, `strategies/advisory` |
//! | P6 | the holder is silent: stopped, or behind a black hole | `death`, `links`, `strategies/advisory` |
//! | P7 | a wait is cancelled as it is granted | `strategies/advisory` |
//! | P8 | another server takes over | `failover`, `links` |
//! | P13 | two servers take writes | `links` |
//! | P14 | two servers of a cluster, each with locks of its own | `cluster` |
//! | P15 | a server of a cluster is behind the others | `cluster` |
//! | P9 | two names with one key | `sessions` |
//! | P10 | the server has no room for more locks | `sessions` |
//! | P11 | a broken connection is used again | `storm`, `strategies/advisory` |
//! | P12 | a check of a connection is refused | `strategies/advisory` |
//! | P16 | the server is killed under many who hold and wait | `restarts`, `storm` |
//! | Y1, Y2 | names too long; names without case | `strategies/advisory` |
//! | Y3 | `GET_LOCK` says neither yes nor no | `sessions` |
//! | Y4 | a server too old | `engine/checkup` |
//! | Y5 | locks of a server, not of a database | `strategies/advisory` |
//! | Y6 | collations fold names | `names` |
//! | Y7 | a refused wait, told in other numbers | `strategies/transaction` |
//! | Y8 | a driver connects again in silence | `storm`, `strategies/advisory` |
//! | Y9 | deadlocks and waits for rows | `table`, `strategies/transaction`, `engine/link/tests` |
//! | T1, T2 | the server's clock jumps forward, or back | `clock` |
//! | T3 | a client's clock is wrong | `clock` |
//! | T4 | sessions of different time zones | `zones` |
//! | T5 | time stands still in a transaction or a statement | `zones` |
//! | T6 | the server's clock steps amid a contest | `clock` |
//! | T7 | a read stalls after it has looked | `stall` |

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod clock;
mod cluster;
mod crowd;
mod death;
mod failover;
mod names;
mod restarts;
mod sessions;
mod stall;
mod storm;
mod zones;

use leasehold::Guard;
use leasehold::sql::Dialect;
use leasehold_testkit::contest::{BOUND, Checked, LONG, is_guarded, until};
use leasehold_testkit::server::{Plan, Server, tell};

/// A database, and a way to it that knows nothing of leases.
struct Database {
    server: Server,
    dialect: Dialect,
}

impl Database {
    fn postgres(plan: impl FnOnce(Plan) -> Plan) -> Checked<Self> {
        let server = Server::start(plan(Plan::postgres()))?;
        Ok(Self { server, dialect: Dialect::Postgres })
    }

    fn mariadb(plan: impl FnOnce(Plan) -> Plan) -> Checked<Self> {
        let server = Server::start(plan(Plan::mariadb()))?;
        Ok(Self { server, dialect: Dialect::Mysql })
    }

    /// One of each family.
    fn both() -> Checked<[Self; 2]> {
        Ok([Self::postgres(|plan| plan)?, Self::mariadb(|plan| plan)?])
    }

    /// The URL with these options.
    fn url(&self, options: &str) -> String {
        format!("{}?{options}", self.server.url())
    }

    /// Runs statements on a connection of their own; the first column of all rows.
    fn tell(&self, statements: &str) -> Checked<Vec<String>> {
        Ok(tell(&self.server.url(), statements)?)
    }

    fn number(&self, statement: &str) -> Checked<i64> {
        Ok(self.tell(statement)?.first().ok_or("no row")?.parse()?)
    }

    /// What one family says, or the other.
    fn pick<T>(&self, postgres: T, mysql: T) -> T {
        if self.dialect == Dialect::Postgres { postgres } else { mysql }
    }

    /// How many connections there are, apart from those of the test.
    fn connections(&self) -> Checked<i64> {
        self.number(self.pick(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'",
            "SELECT count(*) FROM information_schema.PROCESSLIST \
             WHERE ID <> CONNECTION_ID() AND USER <> 'system user' AND COMMAND <> 'Binlog Dump'",
        ))
    }

    /// Ends every one of them, as an operator would; how many there were.
    fn end_all(&self) -> Checked<i64> {
        self.number(self.pick(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = 'leasehold'",
            "BEGIN NOT ATOMIC DECLARE ended INT DEFAULT 0; \
             DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET ended = ended - 1; \
             FOR it IN (SELECT ID FROM information_schema.PROCESSLIST \
             WHERE ID <> CONNECTION_ID() AND USER <> 'system user') DO \
             EXECUTE IMMEDIATE CONCAT('KILL ', it.ID); SET ended = ended + 1; \
             END FOR; SELECT ended; END",
        ))
    }

    /// No client has left a connection.
    async fn is_left_clean(&self) -> Checked {
        until("no connection is left", || async { Ok(self.connections()? == 0) }).await
    }
}

/// Waits until a guard says that it is lost.
async fn is_lost(guard: &Guard) -> Checked {
    tokio::time::timeout(BOUND, guard.lost()).await?;
    assert!(guard.check().is_err_and(|error| error.is_lost()));
    Ok(())
}
