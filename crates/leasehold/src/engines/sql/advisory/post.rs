//! A connection that holds locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit};

use super::super::link::{Dedicated, Reply, SILENCE, Value};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Outcome, Result};

/// By how many seconds a server waits for longer than a guard does.
const MARGIN: u64 = 5;
/// The longest that a server waits for anybody.
const YEAR: u64 = 31_536_000;

/// Never shared with statements of others; its locks end with it.
#[derive(Debug)]
pub(super) struct Post {
    /// What the server calls it.
    pub(super) session: i64,
    /// Empty once it was given up.
    conn: Mutex<Option<Dedicated>>,
    clock: Clock,
    timeout: Duration,
    /// For how many seconds the server lets it rest, where it has to be asked.
    spared: AtomicU64,
    /// Its place among the connections that we may have.
    _seat: OwnedSemaphorePermit,
}

impl Post {
    pub(super) fn new(
        conn: Dedicated,
        session: i64,
        clock: Clock,
        timeout: Duration,
        seat: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let (conn, spared) = (Mutex::new(Some(conn)), AtomicU64::new(SILENCE));
        Arc::new(Self { session, conn, clock, timeout, spared, _seat: seat })
    }

    /// One statement. A connection that does not answer in time is given up with
    /// all that it holds: nobody could say what became of it.
    pub(super) async fn run(&self, sql: &str, values: Vec<Value>) -> Result<Reply> {
        let mut conn = self.conn.lock().await;
        let live = conn.as_mut().ok_or_else(gone)?;
        let answer = tokio::select! {
            biased;
            answer = live.run(sql, values) => answer,
            () = self.clock.sleep_until(self.clock.now().after(self.timeout)) => Err(late()),
        };
        if answer.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown) {
            conn.take();
        }
        answer
    }

    /// Has the server wait for a client that rests until no guard with this ttl
    /// believes any more that it holds something; `text` takes the seconds.
    pub(super) async fn spare(&self, text: &str, ttl: Duration) -> Result<()> {
        let wanted = ttl.as_secs().saturating_add(MARGIN).min(YEAR);
        if self.spared.load(Ordering::Relaxed) < wanted {
            self.run(&format!("{text} {wanted}"), Vec::new()).await?;
            self.spared.fetch_max(wanted, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether it was given up, and every lock with it.
    pub(super) async fn is_closed(&self) -> bool {
        self.conn.lock().await.is_none()
    }

    /// Ends the connection, and every lock with it; false if it had ended before.
    pub(super) async fn close(&self) -> bool {
        self.conn.lock().await.take().is_some()
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection that held the lock is gone")
}

fn late() -> Error {
    let text = "no answer within the time-out; the connection was given up";
    Error::new(ErrorKind::Unavailable, text).unknown()
}
