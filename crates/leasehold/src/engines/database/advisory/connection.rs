//! A connection that holds locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit};

use crate::clock::Clock;
use crate::engines::database::dialect::SILENCE;
use crate::engines::database::dialect::advisory::IdleLimit;
use crate::engines::database::drivers::{Reply, Value};
use crate::engines::database::pool::{AliveCheck, Dedicated};
use crate::error::{Effect, Error, ErrorKind, Result};

/// By how many seconds a server waits for longer than a guard does.
const MARGIN: u64 = 5;

/// Never shared with statements of others; its locks end with it.
#[derive(Debug)]
pub(super) struct LockConnection {
    /// What the server calls it.
    pub(super) session: i64,
    /// Whether tries share it.
    pub(super) shared: bool,
    /// Empty once it was given up.
    conn: Mutex<Option<Dedicated>>,
    alive: AliveCheck,
    /// Whether its end was told, although it may stand.
    ended: AtomicBool,
    clock: Clock,
    timeout: Duration,
    /// For how many seconds the server lets it rest.
    spared: AtomicU64,
    /// Its place among the connections that we may have.
    _seat: OwnedSemaphorePermit,
}

impl LockConnection {
    pub(super) fn new(
        conn: Dedicated,
        session: i64,
        shared: bool,
        clock: Clock,
        timeout: Duration,
        seat: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let (alive, conn) = (conn.alive(), Mutex::new(Some(conn)));
        let (ended, spared) = (AtomicBool::new(false), AtomicU64::new(SILENCE));
        Arc::new(Self { session, shared, conn, alive, ended, clock, timeout, spared, _seat: seat })
    }

    /// One statement. A connection that has died, or does not answer in time, is
    /// given up with all that it holds: nobody could say what became of it.
    pub(super) async fn run(&self, sql: &str, values: Vec<Value>) -> Result<Reply> {
        self.run_on(&mut *self.conn.lock().await, sql, values).await
    }

    async fn run_on(
        &self,
        conn: &mut Option<Dedicated>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Reply> {
        conn.take_if(|_| self.is_over());
        let live = conn.as_mut().ok_or_else(gone)?;
        let answer = tokio::select! {
            biased;
            answer = live.run(sql, values) => answer,
            () = self.clock.sleep_until(self.clock.now().after(self.timeout)) => Err(late()),
        };
        let in_doubt = answer.as_ref().is_err_and(|error| error.effect() == Effect::Unknown);
        conn.take_if(|_| in_doubt || self.is_over());
        answer
    }

    /// Has the server wait for a client that rests until no guard with this ttl
    /// believes any more that it holds something. The ttl, or less if the server
    /// cannot be made to wait that long.
    pub(super) async fn spare(&self, how: &IdleLimit, ttl: Duration) -> Result<Duration> {
        let wanted = ttl.as_secs().saturating_add(MARGIN).min(how.longest);
        if self.spared.load(Ordering::Relaxed) < wanted {
            let mut conn = self.conn.lock().await;
            // Another may have asked for more meanwhile, and that stays.
            if self.spared.load(Ordering::Relaxed) < wanted {
                self.run_on(&mut conn, &(how.text)(wanted), Vec::new()).await?;
                self.spared.store(wanted, Ordering::Relaxed);
            }
        }
        Ok(ttl.min(Duration::from_secs(how.longest - MARGIN)))
    }

    /// Whether it has died or was given up, and every lock with it.
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.alive.is_gone()
    }

    /// It is not used any more, from now on.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Ends the connection, and every lock with it; false if it had ended before.
    pub(super) async fn close(&self) -> bool {
        self.conn.lock().await.take().is_some()
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

pub(super) fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection that held the lock is gone")
}

fn late() -> Error {
    let text = "no answer within the time-out; the connection was given up";
    Error::new(ErrorKind::Unavailable, text).unknown()
}
