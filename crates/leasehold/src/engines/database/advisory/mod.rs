//! The server's advisory locks, on connections of their own.
//!
//! A lock lives as long as the session that took it. Tries share one session;
//! whoever has to wait does so at the server, on a session of its own, which then
//! holds the lock. Sessions are closed, never given to others.

mod connection;
mod leases;
mod sequence;
#[cfg(test)]
mod tests;
mod verbs;
mod wait_task;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use self::connection::LockConnection;
use self::leases::{AdvisoryLease, AdvisoryLeases};
use super::checkup;
use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::profile::{Cost, Fencing, Liveness, Reach, WakeUp};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector, Severity,
};
use crate::engines::database::dialect::advisory::AdvisorySql;
use crate::engines::database::pool::{Dedicated, Pool};
use crate::engines::kit::by_name;
use crate::engines::kit::timeout::timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;
use crate::url::{Options, Url};

/// How many connections may hold locks or wait for some.
const CONNECTIONS: usize = 16;
/// How long a statement may take that does not wait.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the strategy on a server that is reached.
pub(crate) async fn open(pool: Pool, url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let options = &url.options;
    check(&pool, options)?;
    let sequence = sequence::find_or_make(&pool, options).await?;
    let profile = profile(&pool, sequence.is_some());
    let connections = options.number("connections")?.unwrap_or(CONNECTIONS);
    let inner = AdvisoryClient {
        texts: pool.family().advisory(sequence.as_deref()),
        pool,
        clock,
        timeout: options.duration("timeout")?.unwrap_or(TIMEOUT),
        connections,
        seats: Arc::new(Semaphore::new(connections)),
        leases: AdvisoryLeases::default(),
        front: Mutex::new(None),
    };
    Ok(Arc::new(Advisory { inner: Arc::new(inner), profile }))
}

/// Refuses a way that does not keep sessions, and what says nothing here.
fn check(pool: &Pool, options: &Options) -> Result<()> {
    if pool.behind_pooler() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "a transaction pooler stands in between, where two clients can hold one advisory \
             lock; connect to the server itself, or use strategy=table",
        ));
    }
    for key in ["table", "column", "token", "expires", "owner", "wake", "poll", "poll_max"] {
        if options.get(key)?.is_some() {
            return Err(Error::invalid(format!(
                "option {key:?} says nothing to strategy=advisory; remove it"
            )));
        }
    }
    Ok(())
}

/// Leases end with their connection: nothing outlives a restart of the server.
fn profile(pool: &Pool, sequence: bool) -> Profile {
    let mut profile = Profile::new(pool.family().word(), pool.endpoint());
    profile.reach = Reach::Network;
    profile.liveness = Liveness::Connection;
    profile.wake = WakeUp::Push;
    profile.fencing = if sequence { Fencing::Strict } else { Fencing::None };
    profile.cost = Cost { connections_per_waiter: 1, ..Cost::ONE_TRIP };
    profile
}

#[derive(Debug)]
struct Advisory {
    inner: Arc<AdvisoryClient>,
    profile: Profile,
}

/// What the verbs share.
#[derive(Debug)]
struct AdvisoryClient {
    pool: Pool,
    clock: Clock,
    texts: AdvisorySql,
    timeout: Duration,
    connections: usize,
    seats: Arc<Semaphore>,
    leases: AdvisoryLeases,
    /// The connection that tries share.
    front: Mutex<Option<Arc<LockConnection>>>,
}

impl AdvisoryClient {
    /// The connection that tries share, made again if it has gone.
    async fn front(self: &Arc<Self>) -> Result<Arc<LockConnection>> {
        let mut front = self.front.lock().await;
        if let Some(dead) = front.take_if(|connection| connection.is_over()) {
            self.lost(&dead);
        }
        if let Some(connection) = &*front {
            return Ok(Arc::clone(connection));
        }
        let seat = self.seat()?;
        let mut conn = self.pool.dedicate().await?;
        let (session, closed) = (self.session(&mut conn).await?, conn.closed());
        let connection =
            LockConnection::new(conn, session, true, self.clock.clone(), self.timeout, seat);
        *front = Some(Arc::clone(&connection));
        self.watch(&connection, closed);
        Ok(connection)
    }

    /// Waits for the end of a connection, to tell of what went with it. Keeps
    /// nothing alive.
    fn watch(
        self: &Arc<Self>,
        connection: &Arc<LockConnection>,
        closed: impl Future<Output = ()> + Send + 'static,
    ) {
        let (inner, connection) = (Arc::downgrade(self), Arc::downgrade(connection));
        Handle::current().spawn(async move {
            closed.await;
            let (Some(inner), Some(connection)) = (inner.upgrade(), connection.upgrade()) else {
                return;
            };
            connection.end();
            inner.lost(&connection);
            // Whoever makes the next one has this for as long as that takes.
            inner.front.lock().await.take_if(|front| front.same(&connection));
        });
    }

    /// A place for one more connection.
    fn seat(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "all {} connections hold advisory locks or wait for one; raise \
                     \"connections\", or use strategy=table, which needs none per waiter",
                    self.connections
                ),
            )
        })
    }

    async fn session(&self, conn: &mut Dedicated) -> Result<i64> {
        let asked = self.within(conn.run(self.texts.session, Vec::new())).await;
        let late = || Err(Error::new(ErrorKind::Unavailable, "no answer within the time-out"));
        let reply = asked.unwrap_or_else(late)?;
        reply.rows.first().map_or(Ok(0), |row| row.int(0))
    }

    /// What `future` gives within the time-out.
    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        timeout(&self.clock, self.timeout, future).await
    }

    /// Stops every wait and lets go of every connection.
    fn leave(self: &Arc<Self>) {
        let connections = self.leases.clear().into_iter().filter_map(|entry| match entry {
            AdvisoryLease::Held(hold) => Some(hold.connection),
            AdvisoryLease::Waiting(waiter) => {
                waiter.stop();
                None
            }
        });
        drop(connections.collect::<Vec<_>>());
        if let Ok(mut front) = self.front.try_lock() {
            front.take();
        }
    }
}

impl Drop for Advisory {
    fn drop(&mut self) {
        self.inner.leave();
    }
}

impl Engine for Advisory {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        Box::pin(Arc::clone(&self.inner).acquire(claim))
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        Box::pin(Arc::clone(&self.inner).wait(ticket, until))
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        Box::pin(Arc::clone(&self.inner).renew(tickets))
    }

    /// What the ending asks for beyond the end is refused by the profile.
    fn release(&self, ticket: Ticket, _: Ending) -> BoxFuture<Result<Released>> {
        Box::pin(Arc::clone(&self.inner).release(ticket))
    }

    fn convert(&self, _: Ticket, _: Mode) -> BoxFuture<Result<Renewal>> {
        let error = Error::new(ErrorKind::Unsupported, "these locks are exclusive");
        Box::pin(std::future::ready(Err(error)))
    }

    fn events(&self) -> Events {
        self.inner.pool.events()
    }

    fn inspect(&self, selector: Selector, _: Page) -> BoxFuture<Result<Listing>> {
        let inner = Arc::clone(&self.inner);
        by_name::inspect(selector, |name| async move { inner.status(name).await })
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        Box::pin(Arc::clone(&self.inner).evict(eviction))
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        let mut findings = match self.profile.fencing {
            Fencing::None => vec![Finding::new(
                Severity::Note,
                "advisory locks have no fence here that always grows",
                "use strategy=table where a late writer must be refused",
            )],
            _ => Vec::new(),
        };
        let pool = self.inner.pool.clone();
        Box::pin(async move {
            findings.extend(checkup::examine(&pool).await?);
            Ok(findings)
        })
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        None
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.inner.leave();
        self.inner.pool.close();
        Box::pin(std::future::ready(Ok(())))
    }
}
