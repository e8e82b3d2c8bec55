//! A connection that holds locks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit};

use super::super::link::{Dedicated, Reply, Value};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Outcome, Result};

/// Never shared with statements of others; its locks end with it.
#[derive(Debug)]
pub(super) struct Post {
    /// What the server calls it.
    pub(super) session: i64,
    /// Empty once it was given up.
    conn: Mutex<Option<Dedicated>>,
    clock: Clock,
    timeout: Duration,
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
        Arc::new(Self { session, conn: Mutex::new(Some(conn)), clock, timeout, _seat: seat })
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

    /// Ends the connection, and every lock with it.
    pub(super) async fn close(&self) {
        self.conn.lock().await.take();
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
