//! One connection, whatever the family.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};

use super::Dialect;
use super::address::Address;
use super::fault::Fault;
#[cfg(feature = "mysql")]
use super::mysql;
use super::notices::Ear;
#[cfg(feature = "postgres")]
use super::postgres;
use super::settings::Settings;
use super::value::{Reply, Step, Value};
use crate::clock::Clock;
use crate::error::Result;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Short statements of many.
    Shared,
    /// Whatever its owner likes, for as long as it likes.
    Own,
}

/// What a server says of itself.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) read_only: bool,
    /// Grows when a standby is promoted.
    pub(super) rank: i64,
    /// Somebody stands between the server and us.
    pub(super) through: bool,
}

/// A connection that stands, or stood. Once gone it stays gone.
pub(super) struct Wire {
    driver: Driver,
    address: Address,
    clock: Clock,
    /// Who uses it now.
    gate: Arc<RwLock<()>>,
    /// Whether we have given it up.
    ended: watch::Sender<bool>,
}

enum Driver {
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Wire>),
    #[cfg(feature = "mysql")]
    Mysql(mysql::Wire),
}

/// The right to use a connection, alone or beside others.
pub(super) enum Turn {
    Beside { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

/// Calls the same on either driver.
macro_rules! either {
    ($driver:expr, $wire:ident => $call:expr) => {
        match $driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres($wire) => $call,
            #[cfg(feature = "mysql")]
            Driver::Mysql($wire) => $call,
        }
    };
}

impl Wire {
    /// Connects.
    pub(super) async fn open(
        address: &Address,
        settings: &Settings,
        clock: &Clock,
        ear: Option<Ear>,
    ) -> Result<Self> {
        let driver = dial(address, settings, ear).await;
        let driver = driver.map_err(|error| error.with("server", address))?;
        let (gate, ended) = (Arc::default(), watch::Sender::new(false));
        Ok(Self { driver, address: address.clone(), clock: clock.clone(), gate, ended })
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// What the server says of itself.
    pub(super) async fn look(&self) -> Result<Look, Fault> {
        either!(&self.driver, wire => wire.look(&self.clock).await)
    }

    /// Which server this is, or which cluster that has no two of anything: the
    /// same for all ways to it.
    pub(super) async fn place(&self, settings: &Settings) -> Result<String, Fault> {
        either!(&self.driver, wire => wire.place(settings, &self.clock).await)
    }

    /// Tells the session how we work.
    pub(super) async fn settle(&self, settings: &Settings, kind: Kind) -> Result<(), Fault> {
        either!(&self.driver, wire => wire.settle(settings, kind, &self.clock).await)
    }

    /// What is said behind a pooler leaves nothing in its session.
    pub(super) fn set_pooled(&self) {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(wire) => wire.set_pooled(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => {}
        }
    }

    /// Whether it has turned out that a pooler stands in between.
    pub(super) fn is_pooled(&self) -> bool {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(wire) => wire.is_pooled(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => false,
        }
    }

    /// The process that serves us now, where that says anything.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unused_async, reason = "only PostgreSQL is asked")
    )]
    pub(super) async fn backend(&self) -> Result<Option<i64>, Fault> {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(wire) => wire.backend(&self.clock).await.map(Some),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => Ok(None),
        }
    }

    /// Waits until it may be used; first come, first served.
    pub(super) async fn turn(&self, alone: bool) -> Turn {
        let gate = Arc::clone(&self.gate);
        if alone || !self.is_pipelined() {
            return Turn::Alone { _guard: gate.write_owned().await };
        }
        Turn::Beside { _guard: gate.read_owned().await }
    }

    /// Whether a statement may be sent before the last was answered. Behind a
    /// pooler answers can come to the wrong one.
    fn is_pipelined(&self) -> bool {
        match &self.driver {
            #[cfg(feature = "postgres")]
            Driver::Postgres(wire) => !wire.is_pooled(),
            #[cfg(feature = "mysql")]
            Driver::Mysql(_) => false,
        }
    }

    pub(super) async fn run(&self, sql: &Arc<str>, values: &[Value]) -> Result<Reply, Fault> {
        if self.is_gone() {
            return Err(Fault::gone());
        }
        either!(&self.driver, wire => wire.run(sql, values, &self.clock).await)
    }

    /// One after the other, in one round trip if the driver can.
    pub(super) async fn run_both(&self, steps: &[Step; 2]) -> Result<[Reply; 2], Fault> {
        if self.is_gone() {
            return Err(Fault::gone());
        }
        either!(&self.driver, wire => wire.run_both(steps, &self.clock).await)
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        either!(&self.driver, wire => wire.batch(sql).await)
    }

    pub(super) async fn transact(
        &self,
        steps: &[Step],
        settings: &Settings,
    ) -> Result<Option<Vec<Reply>>, Fault> {
        either!(&self.driver, wire => wire.transact(steps, settings, &self.clock).await)
    }

    /// Whether the server still takes writes. One that is at work for us is not
    /// asked; one that refuses to say is there.
    pub(super) async fn is_well(&self) -> bool {
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

    pub(super) fn is_gone(&self) -> bool {
        *self.ended.borrow() || self.alive().has_changed().is_err()
    }

    /// Until the connection has ended.
    pub(super) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
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
        either!(&self.driver, wire => wire.alive())
    }

    /// For good.
    pub(super) fn close(&self) {
        self.ended.send_replace(true);
        either!(&self.driver, wire => wire.close());
    }

    /// Asks the server to stop what it does for us; it may be done already.
    pub(super) fn cancel(&self) -> crate::engine::BoxFuture<()> {
        either!(&self.driver, wire => Box::pin(wire.cancel()))
    }
}

#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "only they are told"))]
async fn dial(address: &Address, settings: &Settings, ear: Option<Ear>) -> Result<Driver> {
    match settings.dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => postgres::Wire::open(address, settings, ear)
            .await
            .map(|wire| Driver::Postgres(Box::new(wire))),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => mysql::Wire::open(address, settings).await.map(Driver::Mysql),
        #[cfg(not(all(feature = "postgres", feature = "mysql")))]
        other => {
            Err(super::fault::odd("this family is not compiled in").with("family", other.word()))
        }
    }
}
