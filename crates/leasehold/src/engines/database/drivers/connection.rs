//! One connection, whatever the family.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};

use super::facts::ServerFacts;
use super::fault::SqlFault;
#[cfg(feature = "mysql")]
use super::mysql;
use super::notice::NoticeSender;
#[cfg(feature = "postgres")]
use super::postgres;
use super::settings::{ConnectionUse, DatabaseSettings};
use super::value::{Reply, SqlStep, Value};
use crate::clock::Clock;
use crate::engines::kit::hosts::ServerAddress;
use crate::error::Result;
use crate::sql::Dialect;

/// A connection that stands, or stood. Once gone it stays gone.
pub(crate) struct DatabaseConnection {
    driver: Driver,
    address: ServerAddress,
    clock: Clock,
    /// Who uses it now.
    gate: Arc<RwLock<()>>,
    /// Whether we have given it up.
    ended: watch::Sender<bool>,
}

enum Driver {
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Postgres>),
    #[cfg(feature = "mysql")]
    Mysql(mysql::Mysql),
}

/// The right to use a connection, alone or beside others.
pub(crate) enum ConnectionTurn {
    Beside { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

/// Calls the same on either driver.
macro_rules! either {
    ($either:expr, $driver:ident => $call:expr) => {
        match $either {
            #[cfg(feature = "postgres")]
            Driver::Postgres($driver) => $call,
            #[cfg(feature = "mysql")]
            Driver::Mysql($driver) => $call,
        }
    };
}

impl DatabaseConnection {
    /// Connects.
    pub(crate) async fn open(
        address: &ServerAddress,
        settings: &DatabaseSettings,
        clock: &Clock,
        notices: Option<NoticeSender>,
    ) -> Result<Self> {
        let driver = dial(address, settings, notices).await;
        let driver = driver.map_err(|error| error.with("server", address))?;
        let (gate, ended) = (Arc::default(), watch::Sender::new(false));
        Ok(Self { driver, address: address.clone(), clock: clock.clone(), gate, ended })
    }

    pub(crate) const fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// What the server says of itself.
    pub(crate) async fn look(&self) -> Result<ServerFacts, SqlFault> {
        either!(&self.driver, driver => driver.look(&self.clock).await)
    }

    /// Which server this is, or which cluster that has no two of anything: the
    /// same for all ways to it.
    pub(crate) async fn place(&self, settings: &DatabaseSettings) -> Result<String, SqlFault> {
        either!(&self.driver, driver => driver.place(settings, &self.clock).await)
    }

    /// Tells the session how we work.
    pub(crate) async fn settle(
        &self,
        settings: &DatabaseSettings,
        kind: ConnectionUse,
    ) -> Result<(), SqlFault> {
        either!(&self.driver, driver => driver.settle(settings, kind, &self.clock).await)
    }

    /// What is said behind a pooler leaves nothing in its session.
    pub(crate) fn set_pooled(&self) {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(driver) => driver.set_pooled(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => {}
        }
    }

    /// Whether it has turned out that a pooler stands in between.
    pub(crate) fn behind_pooler(&self) -> bool {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(driver) => driver.behind_pooler(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => false,
        }
    }

    /// The process that serves us now, where that says anything.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unused_async, reason = "only PostgreSQL is asked")
    )]
    pub(crate) async fn backend(&self) -> Result<Option<i64>, SqlFault> {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(driver) => driver.backend(&self.clock).await.map(Some),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => Ok(None),
        }
    }

    /// Waits until it may be used; first come, first served.
    pub(crate) async fn turn(&self, alone: bool) -> ConnectionTurn {
        let gate = Arc::clone(&self.gate);
        if alone || !self.is_pipelined() {
            return ConnectionTurn::Alone { _guard: gate.write_owned().await };
        }
        ConnectionTurn::Beside { _guard: gate.read_owned().await }
    }

    /// Whether a statement may be sent before the last was answered. Behind a
    /// pooler answers can come to the wrong one.
    fn is_pipelined(&self) -> bool {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(driver) => !driver.behind_pooler(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => false,
        }
    }

    pub(crate) async fn run(&self, sql: &Arc<str>, values: &[Value]) -> Result<Reply, SqlFault> {
        if self.is_gone() {
            return Err(SqlFault::gone());
        }
        either!(&self.driver, driver => driver.run(sql, values, &self.clock).await)
    }

    /// One after the other, in one round trip if the driver can.
    pub(crate) async fn run_both(&self, steps: &[SqlStep; 2]) -> Result<[Reply; 2], SqlFault> {
        if self.is_gone() {
            return Err(SqlFault::gone());
        }
        either!(&self.driver, driver => driver.run_both(steps, &self.clock).await)
    }

    pub(crate) async fn batch(&self, sql: &str) -> Result<(), SqlFault> {
        either!(&self.driver, driver => driver.batch(sql).await)
    }

    pub(crate) async fn transact(
        &self,
        steps: &[SqlStep],
        settings: &DatabaseSettings,
    ) -> Result<Option<Vec<Reply>>, SqlFault> {
        either!(&self.driver, driver => driver.transact(steps, settings, &self.clock).await)
    }

    /// Whether the server still takes writes. One that is at work for us is not
    /// asked; one that refuses to say is there.
    pub(crate) async fn is_well(&self) -> bool {
        let turn = Arc::clone(&self.gate);
        if !self.is_pipelined() && turn.try_write().is_err() {
            return true;
        }
        let _turn = self.turn(false).await;
        match self.look().await {
            Ok(look) => !look.read_only,
            Err(fault) => !fault.broken,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        *self.ended.borrow() || self.alive().has_changed().is_err()
    }

    /// Until the connection has ended.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut alive, mut ended) = (self.alive(), self.ended.subscribe());
        async move {
            tokio::select! {
                () = async { while alive.changed().await.is_ok() {} } => {}
                // An error says that nobody is left to end it.
                _ = ended.wait_for(|ended| *ended) => {}
            }
        }
    }

    fn alive(&self) -> watch::Receiver<()> {
        either!(&self.driver, driver => driver.alive())
    }

    /// For good.
    pub(crate) fn close(&self) {
        self.ended.send_replace(true);
        either!(&self.driver, driver => driver.close());
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(crate) fn cancel(&self) -> crate::engine::BoxFuture<()> {
        either!(&self.driver, driver => Box::pin(driver.cancel()))
    }
}

#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "only they are told"))]
async fn dial(
    address: &ServerAddress,
    settings: &DatabaseSettings,
    notices: Option<NoticeSender>,
) -> Result<Driver> {
    match settings.family.dialect() {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => postgres::Postgres::open(address, settings, notices)
            .await
            .map(|driver| Driver::Postgres(Box::new(driver))),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => mysql::Mysql::open(address, settings).await.map(Driver::Mysql),
        _ => {
            let family = settings.family.word();
            Err(super::fault::odd("this family is not compiled in").with("family", family))
        }
    }
}
