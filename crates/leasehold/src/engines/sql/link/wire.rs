//! One connection, whatever the family.

use std::sync::Arc;

use super::address::Address;
use super::fault::Fault;
#[cfg(feature = "mysql")]
use super::mysql;
#[cfg(feature = "postgres")]
use super::postgres;
use super::settings::Settings;
use super::value::{Reply, Step, Value};
use super::{Dialect, within};
use crate::clock::Clock;
use crate::error::{Error, Outcome, Result};

/// A connection for one user at a time; it ends with its value.
pub(super) enum Wire {
    #[cfg(feature = "postgres")]
    Postgres(postgres::Wire),
    #[cfg(feature = "mysql")]
    Mysql(mysql::Wire),
}

impl Wire {
    /// Connects and introduces us.
    pub(super) async fn open(
        address: &Address,
        settings: &Settings,
        clock: &Clock,
    ) -> Result<Self> {
        let made = within(clock, settings.connect, Box::pin(Self::dial(address, settings))).await;
        let late = || Err(super::fault::away("no connection within the time-out"));
        made.unwrap_or_else(late).map_err(|error| error.with("server", address))
    }

    async fn dial(address: &Address, settings: &Settings) -> Result<Self> {
        match settings.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => postgres::Wire::open(address, settings).await.map(Self::Postgres),
            #[cfg(feature = "mysql")]
            Dialect::Mysql => mysql::Wire::open(address, settings).await.map(Self::Mysql),
            #[cfg(not(all(feature = "postgres", feature = "mysql")))]
            _ => Err(Error::new(
                crate::error::ErrorKind::Unsupported,
                "this family is not compiled in",
            )),
        }
    }

    pub(super) async fn run(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, Fault> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(wire) => wire.run(sql, values, clock).await,
            #[cfg(feature = "mysql")]
            Self::Mysql(wire) => wire.run(sql, values, clock).await,
        }
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(wire) => wire.batch(sql).await,
            #[cfg(feature = "mysql")]
            Self::Mysql(wire) => wire.batch(sql).await,
        }
    }

    /// All steps or none; `None` if one that had to meet a row did not.
    pub(super) async fn transact(
        &mut self,
        steps: &[Step],
        clock: &Clock,
    ) -> Result<Option<Vec<Reply>>, Fault> {
        self.batch("BEGIN").await.map_err(undone)?;
        let replies = match self.steps(steps, clock).await {
            Ok(Some(replies)) => replies,
            Ok(None) => return self.batch("ROLLBACK").await.map(|()| None).map_err(undone),
            Err(fault) => {
                // If this fails too, the connection is of no use to anyone.
                self.batch("ROLLBACK").await.map_err(undone)?;
                return Err(undone(fault));
            }
        };
        self.batch("COMMIT").await?;
        Ok(Some(replies))
    }

    async fn steps(&mut self, steps: &[Step], clock: &Clock) -> Result<Option<Vec<Reply>>, Fault> {
        let mut replies = Vec::with_capacity(steps.len());
        for step in steps {
            let reply = self.run(&step.sql, &step.values, clock).await?;
            if step.must_change && reply.affected == 0 {
                return Ok(None);
            }
            replies.push(reply);
        }
        Ok(Some(replies))
    }
}

/// What was not committed had no effect, even if its answer is lost.
fn undone(fault: Fault) -> Fault {
    let error = fault.error;
    let error = match error.outcome() {
        Outcome::NotApplied => error,
        Outcome::Unknown => {
            Error::new(error.kind(), "the transaction broke off; it was undone").caused_by(error)
        }
    };
    Fault { error, ..fault }
}
