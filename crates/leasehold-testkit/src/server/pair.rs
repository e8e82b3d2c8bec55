//! A database and the one that may replace it.

use std::thread;
use std::time::{Duration, Instant};

use super::{Plan, Server, ServerError};

/// How long a copy may take to catch up or to take over.
const AGREE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(10);

/// A primary and its copy. Both end with the value.
#[derive(Debug)]
pub struct Pair {
    /// Takes writes at first.
    pub primary: Server,
    /// Follows it.
    pub copy: Server,
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Postgres,
    Mariadb,
}

impl Pair {
    /// A PostgreSQL and its streaming standby.
    ///
    /// # Errors
    ///
    /// When a server does not start or the standby does not catch up.
    pub fn postgres() -> Result<Self, ServerError> {
        let primary = Server::postgres()?;
        let copy = Server::start(Plan::postgres_standby(primary.port()))?;
        let pair = Self { primary, copy, family: Family::Postgres };
        pair.until("the standby streams", |pair| {
            let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
            Ok(pair.primary.sql(streams)? == "1")
        })?;
        Ok(pair)
    }

    /// The same, where a commit waits for the standby.
    ///
    /// # Errors
    ///
    /// When a server does not start or the standby does not catch up.
    pub fn postgres_synchronous() -> Result<Self, ServerError> {
        let pair = Self::postgres()?;
        pair.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        pair.primary.sql("SELECT pg_reload_conf()")?;
        pair.until("the standby is synchronous", |pair| {
            Ok(pair.primary.sql("SELECT sync_state FROM pg_stat_replication")? == "sync")
        })?;
        Ok(pair)
    }

    /// A MariaDB and its replica, which takes no writes.
    ///
    /// # Errors
    ///
    /// When a server does not start or the replica does not catch up.
    pub fn mariadb() -> Result<Self, ServerError> {
        let primary = Plan::mariadb().args(["--server-id=1", "--log-bin=log", "--read-only=0"]);
        let copy = Plan::mariadb().args(["--server-id=2", "--log-bin=log", "--read-only=1"]);
        let (primary, copy) = (Server::start(primary)?, Server::start(copy)?);
        let port = primary.port();
        // Both were made alike, so that the copy starts where the primary is now.
        let at = primary.sql("SELECT @@gtid_binlog_pos")?;
        copy.sql(&format!(
            "RESET MASTER; SET GLOBAL gtid_slave_pos = '{at}'; \
             CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, \
             MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; \
             START SLAVE"
        ))?;
        let pair = Self { primary, copy, family: Family::Mariadb };
        pair.until("the replica follows", Self::has_caught_up)?;
        Ok(pair)
    }

    /// The URL that names both, the primary first.
    #[must_use]
    pub fn url(&self) -> String {
        let both = format!("{},{}", self.primary.addr(), self.copy.addr());
        self.primary.url().replace(&self.primary.addr().to_string(), &both)
    }

    /// Whether the copy has everything that the primary has now.
    ///
    /// # Errors
    ///
    /// When one of them does not answer.
    pub fn has_caught_up(&self) -> Result<bool, ServerError> {
        let (here, there) = match self.family {
            Family::Postgres => ("SELECT pg_current_wal_lsn()", "SELECT pg_last_wal_replay_lsn()"),
            Family::Mariadb => ("SELECT @@gtid_binlog_pos", "SELECT @@gtid_slave_pos"),
        };
        Ok(self.primary.sql(here)? == self.copy.sql(there)?)
    }

    /// Waits until the copy has everything.
    ///
    /// # Errors
    ///
    /// When it does not get there.
    pub fn catch_up(&self) -> Result<(), ServerError> {
        self.until("the copy has everything", Self::has_caught_up)
    }

    /// From now on the copy hears nothing of what the primary does. A copy that
    /// is only stopped finds the rest in its socket later.
    ///
    /// # Errors
    ///
    /// When it goes on following.
    pub fn sever(&self) -> Result<(), ServerError> {
        match self.family {
            Family::Mariadb => self.copy.sql("STOP SLAVE").map(drop),
            Family::Postgres => {
                self.copy.sql("ALTER SYSTEM SET primary_conninfo = ''")?;
                self.copy.sql("SELECT pg_reload_conf()")?;
                self.until("the standby is cut off", |pair| {
                    Ok(pair.primary.sql("SELECT count(*) FROM pg_stat_replication")? == "0")
                })
            }
        }
    }

    /// Makes the copy take writes, whatever the primary does.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn promote(&self) -> Result<(), ServerError> {
        match self.family {
            Family::Postgres => self.copy.sql("SELECT pg_promote()").map(drop),
            Family::Mariadb => self.copy.sql("STOP SLAVE; SET GLOBAL read_only = 0").map(drop),
        }
    }

    fn until(
        &self,
        what: &str,
        done: impl Fn(&Self) -> Result<bool, ServerError>,
    ) -> Result<(), ServerError> {
        let end = Instant::now() + AGREE;
        while Instant::now() < end {
            if done(self)? {
                return Ok(());
            }
            thread::sleep(TICK);
        }
        Err(ServerError(format!("not in time: {what}")))
    }
}
