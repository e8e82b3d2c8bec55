//! The way to a database server: hosts, drivers, statements. It knows no lease.

mod address;
mod fault;
#[cfg(feature = "mysql")]
mod mysql;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use self::fault::Fault;
use self::pool::{Lent, Pool};
pub(super) use self::settings::Settings;
pub(super) use self::value::{Reply, Row, Step, Value};
use crate::clock::Clock;
use crate::engine::{Bus, Event, Events};
use crate::error::{Error, ErrorKind, Result};

/// How often a statement that was in the way of another is repeated.
const AGAIN: u32 = 8;

/// The family of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    Mysql,
}

impl Dialect {
    fn of(scheme: &str) -> Self {
        if scheme.starts_with("postgres") { Self::Postgres } else { Self::Mysql }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
        }
    }
}

/// A way to one database; cheap to clone. Lives on home.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    dialect: Dialect,
    endpoint: String,
    timeout: Duration,
    pool: Arc<Pool>,
    bus: Bus,
    clock: Clock,
}

impl Link {
    /// Connects: the first connection stands when this returns.
    pub(super) async fn open(settings: &Settings, clock: Clock) -> Result<Self> {
        let endpoint = settings.endpoint();
        let pool = Box::pin(Pool::open(settings, clock.clone())).await;
        let pool = pool.map_err(|error| error.with("endpoint", &endpoint))?;
        let (dialect, timeout) = (settings.dialect, settings.timeout);
        let bus = Bus::new();
        bus.publish(&Event::Connected);
        Ok(Self(Arc::new(Inner { dialect, endpoint, timeout, pool, bus, clock })))
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.0.dialect
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
        let work = Work::One(Step { sql: Arc::clone(sql), values, must_change: false });
        let answer = self.start(work);
        async move {
            let replies = answer.await?.unwrap_or_default();
            let missing = || Error::new(ErrorKind::Unexpected, "no answer to a statement");
            replies.into_iter().next().ok_or_else(missing)
        }
    }

    /// Several statements in one transaction, in order, each a round trip.
    ///
    /// A step that must change something and meets no row ends it: all is
    /// undone, and the answer is `None`.
    pub(super) fn transact(
        &self,
        steps: Vec<Step>,
    ) -> impl Future<Output = Result<Option<Vec<Reply>>>> + Send + 'static {
        self.start(Work::All(steps))
    }

    /// Statements without values, never repeated: for the schema.
    pub(super) async fn batch(&self, sql: &str) -> Result<()> {
        self.start(Work::Batch(sql.to_owned())).await.map(drop)
    }

    /// A transaction pooler stands in between: what a session is told does not
    /// last.
    pub(super) fn is_pooled(&self) -> bool {
        false
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    /// Where the connection's coming and going is told; strategies add the
    /// tickets.
    pub(super) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    pub(super) fn events(&self) -> Events {
        self.0.bus.subscribe()
    }

    /// Ends connections and tasks.
    #[expect(clippy::unused_async, reason = "it will say goodbye")]
    pub(super) async fn close(&self) {
        self.0.pool.close();
        self.0.bus.close();
    }

    /// Work goes on when nobody waits for it any more, so that no connection is
    /// left in the middle of something.
    fn start(
        &self,
        work: Work,
    ) -> impl Future<Output = Result<Option<Vec<Reply>>>> + Send + 'static {
        let task = self.0.clone().finish(work);
        async move {
            let ended = Handle::current().spawn(task).await;
            ended.unwrap_or_else(|cause| {
                Err(Error::new(ErrorKind::Unexpected, "a task ended").caused_by(cause).unknown())
            })
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.0.endpoint)
    }
}

/// What a connection is lent for.
enum Work {
    One(Step),
    All(Vec<Step>),
    Batch(String),
}

impl Inner {
    async fn finish(self: Arc<Self>, work: Work) -> Result<Option<Vec<Reply>>> {
        let answer = within(&self.clock, self.timeout, Box::pin(self.insist(&work))).await;
        let answer = answer.unwrap_or_else(|| Err(fault::late()));
        answer.map_err(|error| error.with("endpoint", &self.endpoint))
    }

    async fn insist(&self, work: &Work) -> Result<Option<Vec<Reply>>> {
        let mut tries = 0;
        loop {
            let mut lent = self.pool.lend().await?;
            let answer = work.on(&mut lent, &self.clock).await;
            tries += 1;
            match answer {
                Ok(replies) => {
                    lent.give_back();
                    return Ok(replies);
                }
                Err(fault) => {
                    if !fault.broken {
                        lent.give_back();
                    }
                    if !fault.again || tries == AGAIN {
                        return Err(fault.error);
                    }
                }
            }
        }
    }
}

impl Work {
    async fn on(&self, lent: &mut Lent, clock: &Clock) -> Result<Option<Vec<Reply>>, Fault> {
        match self {
            Self::One(step) => {
                let reply = lent.wire.run(&step.sql, &step.values, clock).await?;
                Ok(Some(vec![reply]))
            }
            Self::All(steps) => lent.wire.transact(steps, clock).await,
            Self::Batch(sql) => lent.wire.batch(sql).await.map(|()| None),
        }
    }
}

/// What `future` gives, unless `span` passes first.
async fn within<T>(clock: &Clock, span: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep_until(clock.now().after(span)) => None,
    }
}
