//! Connections to one database, as many as are needed.

mod command;
mod dedicated;
mod dial;
mod listener;
mod shared;
mod slot;
mod slots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::command::PoolCommand;
pub(super) use self::dedicated::{AliveCheck, Dedicated};
use self::dial::PoolDialer;
pub(super) use self::listener::ChannelListener;
use self::shared::PoolShared;
use self::slots::PoolSlots;
use crate::clock::Clock;
use crate::engine::{Bus, Event, Events};
use crate::engines::database::dialect::Family;
use crate::engines::database::drivers::{DatabaseSettings, Reply, SqlStep, Value, fault};
use crate::engines::kit::health::Health;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// A way to one database; cheap to clone. Lives on home.
#[derive(Clone)]
pub(super) struct Pool(Arc<PoolShared>);

impl Pool {
    /// Connects: the first connection stands when this returns.
    pub(super) async fn open(settings: &DatabaseSettings, clock: Clock) -> Result<Self> {
        let endpoint = settings.endpoint();
        let health = Health::new(clock.clone());
        let dialer = Arc::new(PoolDialer::new(settings.clone(), clock));
        let slots = PoolSlots::open(&dialer, &health).await;
        let slots = slots.map_err(|error| error.with("endpoint", &endpoint))?;
        health.bus().publish(&Event::Connected);
        Ok(Self(Arc::new(PoolShared { dialer, slots, health, endpoint })))
    }

    /// What the server is.
    pub(super) fn family(&self) -> &'static dyn Family {
        self.0.dialer.settings.family
    }

    /// One statement, which is a transaction of its own.
    ///
    /// Prepared once per connection, by its text. Ends by itself within the
    /// time-out, also if the future is dropped. What the server gave up because
    /// another was in its way is repeated.
    pub(super) fn run(
        &self,
        sql: &Arc<str>,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Reply>> + Send + 'static {
        let work = PoolCommand::One(SqlStep { sql: Arc::clone(sql), values, must_change: false });
        let answer = self.start(work);
        async move {
            let replies = answer.await?.unwrap_or_default();
            replies.into_iter().next().ok_or_else(fault::unsaid)
        }
    }

    /// Two statements, each a transaction of its own, the second after the first:
    /// one round trip, where the driver can send before it has heard. Repeated
    /// together if the first fails. If the second does, it is not known what the
    /// first did.
    pub(super) fn run_both(
        &self,
        first: SqlStep,
        then: SqlStep,
    ) -> impl Future<Output = Result<[Reply; 2]>> + Send + 'static {
        let answer = self.start(PoolCommand::Both([first, then]));
        async move {
            let replies = answer.await?.unwrap_or_default();
            replies.try_into().map_err(|_| fault::unsaid())
        }
    }

    /// Several statements in one transaction, in order, each a round trip.
    ///
    /// A step that must change something and meets no row ends it: all is
    /// undone, and the answer is `None`.
    pub(super) fn transact(
        &self,
        steps: Vec<SqlStep>,
    ) -> impl Future<Output = Result<Option<Vec<Reply>>>> + Send + 'static {
        self.start(PoolCommand::All(steps))
    }

    /// Statements without values, never repeated: for the schema.
    pub(super) async fn batch(&self, sql: &str) -> Result<()> {
        self.start(PoolCommand::Batch(sql.to_owned())).await.map(drop)
    }

    /// A connection of its own. How many there are is the caller's concern.
    pub(super) async fn dedicate(&self) -> Result<Dedicated> {
        let made = Dedicated::open(&self.0.dialer).await;
        made.map_err(|error| error.with("endpoint", &self.0.endpoint))
    }

    /// What PostgreSQL says on a channel, on a connection of its own that is
    /// made again when it breaks. Nothing is heard behind a pooler.
    pub(super) fn listen(&self, channel: &str) -> ChannelListener {
        ChannelListener::start(Arc::clone(&self.0.dialer), channel)
    }

    /// A transaction pooler stands in between: what a session is told does not
    /// last.
    pub(super) fn behind_pooler(&self) -> bool {
        self.0.dialer.behind_pooler()
    }

    /// More than one server of the URL takes writes: two clients may see two
    /// holders.
    pub(super) fn has_rivals(&self) -> bool {
        self.0.dialer.has_rivals()
    }

    /// How often a shared connection broke. The next may lead to a server that
    /// never heard of what was done on the last.
    pub(super) fn breaks(&self) -> u64 {
        self.0.dialer.breaks()
    }

    /// How long a statement may take to be answered.
    pub(super) fn timeout(&self) -> Duration {
        self.0.dialer.settings.timeout
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.dialer.clock
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// Where the connection's coming and going is told; strategies add the
    /// tickets.
    pub(super) fn bus(&self) -> &Bus {
        self.0.health.bus()
    }

    pub(super) fn events(&self) -> Events {
        self.0.health.bus().subscribe()
    }

    /// Ends connections and tasks.
    pub(super) fn close(&self) {
        self.0.slots.close();
        self.0.health.bus().close();
    }

    /// Work goes on when nobody waits for it any more, so that no connection is
    /// left in the middle of something.
    fn start(
        &self,
        work: PoolCommand,
    ) -> impl Future<Output = Result<Option<Vec<Reply>>>> + Send + 'static {
        let task = work.finish(Arc::clone(&self.0));
        async move {
            let ended = Handle::current().spawn(task).await;
            ended.unwrap_or_else(|cause| {
                Err(Error::new(ErrorKind::Unexpected, "a task ended").caused_by(cause).unknown())
            })
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.0.endpoint)
    }
}
