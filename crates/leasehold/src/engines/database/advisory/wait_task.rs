//! The task of one wait, on a connection of its own: the server wakes us.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::AdvisoryClient;
use super::connection::LockConnection;
use super::leases::HeldLock;
use super::waiter::AdvisoryWaiter;
use crate::claim::{LeaseId, Ticket};
use crate::clock::Moment;
use crate::engines::database::drivers::Value;
use crate::engines::database::pool::Dedicated;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// The longest that one call waits; then it calls again. Never -1, which one
/// family takes for ever and the other for an error.
const LONGEST: Duration = Duration::from_secs(3600);
/// Whose time is up is stopped; it need not ask in a hurry.
const SHORTEST: Duration = Duration::from_millis(500);

/// Starts to wait.
pub(super) fn start(
    inner: &Arc<AdvisoryClient>,
    ticket: Ticket,
    label: &str,
    until: Moment,
    seat: OwnedSemaphorePermit,
) -> Arc<AdvisoryWaiter> {
    let (waiter, running) = AdvisoryWaiter::new(label);
    let wait = WaitTask { inner: Arc::clone(inner), waiter: Arc::clone(&waiter), ticket, until };
    Handle::current().spawn(async move {
        wait.run(seat).await;
        drop(running);
    });
    waiter
}

struct WaitTask {
    inner: Arc<AdvisoryClient>,
    waiter: Arc<AdvisoryWaiter>,
    ticket: Ticket,
    until: Moment,
}

impl WaitTask {
    async fn run(self, seat: OwnedSemaphorePermit) {
        match self.wait().await {
            Ok(Some((conn, session))) => self.arrive(conn, session, seat),
            // Nobody waits any more; the connection is closed.
            Ok(None) => {}
            Err(error) => self.waiter.fail(error),
        }
    }

    /// The connection that has the lock; `None` if it was told to stop.
    async fn wait(&self) -> Result<Option<(Dedicated, i64)>> {
        let mut conn = tokio::select! {
            biased;
            () = self.waiter.stopped() => return Ok(None),
            conn = self.inner.pool.dedicate() => conn?,
        };
        let session = self.introduce(&mut conn).await?;
        loop {
            match self.block(&mut conn).await? {
                None => return Ok(None),
                Some(true) => return Ok(Some((conn, session))),
                Some(false) => {}
            }
        }
    }

    async fn introduce(&self, conn: &mut Dedicated) -> Result<i64> {
        if let Some(prepare) = self.inner.texts.prepare {
            // Older servers do not know it, and notice later.
            let _ = conn.run(prepare, Vec::new()).await;
        }
        let session = self.inner.session(conn).await?;
        self.waiter.introduce(session);
        Ok(session)
    }

    /// One call: the lock, no lock in that time, or told to stop. A call that is
    /// stopped may have been granted; the connection is closed in any case.
    async fn block(&self, conn: &mut Dedicated) -> Result<Option<bool>> {
        let (cancel, values) = (conn.cancel(), self.values());
        let mut call = Box::pin(conn.run(&self.inner.texts.block, values));
        tokio::select! {
            biased;
            answer = &mut call => {
                let answer = answer?;
                let said = answer.rows.first().map_or(Ok(None), |row| row.maybe_int(0))?;
                match said {
                    // Neither yes nor no: somebody stopped it at the server.
                    None if self.inner.texts.says_no => Err(stopped()),
                    _ => Ok(Some(said != Some(0))),
                }
            }
            () = self.waiter.stopped() => {
                self.inner.within(cancel).await;
                // Only a server that has stopped sees that we close.
                self.inner.within(call).await;
                Ok(None)
            }
        }
    }

    fn values(&self) -> Vec<Value> {
        let name = self.inner.key(&self.ticket.name);
        if !self.inner.texts.has_limit {
            return vec![name];
        }
        let left = self.until.since(self.inner.clock.now()).clamp(SHORTEST, LONGEST);
        vec![name, format!("{:.3}", left.as_secs_f64()).into()]
    }

    fn arrive(&self, conn: Dedicated, session: i64, seat: OwnedSemaphorePermit) {
        let AdvisoryClient { clock, timeout, leases, .. } = &*self.inner;
        let closed = conn.closed();
        let connection = LockConnection::new(conn, session, false, clock.clone(), *timeout, seat);
        let label = Arc::clone(&self.waiter.label);
        let (name, id): (_, LeaseId) = (self.ticket.name.clone(), self.ticket.id);
        let hold = HeldLock { name, label, connection: Arc::clone(&connection), fence: None };
        if leases.arrived(id, hold) {
            self.inner.watch(&connection, closed);
        }
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Unavailable, "the server stopped the wait; try again")
}
