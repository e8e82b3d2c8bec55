//! A whole transaction on PostgreSQL around the work of one key. What is asked of
//! the key travels with `BEGIN`, and its record with `COMMIT`: no round trip is
//! added, and nothing is written before the end.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::once::{Before, OnceTable, garbled};
use super::phrases::Phrases;
use super::postgres::error;
use crate::error::{Error, ErrorKind, Result};

/// A transaction that is rolled back if it is dropped.
pub(crate) struct Whole<'a> {
    client: &'a Client,
    phrases: Phrases,
    over: bool,
}

/// The first column of the last row.
type Answered = Result<Option<String>, tokio_postgres::Error>;

/// What a look at a key finds.
pub(crate) enum Look {
    /// Nobody has used it, and others wait until our transaction is over.
    Free,
    /// Another transaction is at it.
    Busy,
    /// Someone has used it.
    Before(Before),
    /// The connection does not know our statements yet; the transaction is
    /// broken.
    Unprepared,
}

impl<'a> Whole<'a> {
    pub(crate) fn new(client: &'a Client, table: &OnceTable, name: &str) -> Self {
        Self { client, phrases: Phrases::new(table, name), over: false }
    }

    pub(crate) async fn begin(&self) -> Result<Look> {
        match self.look_after("BEGIN").await {
            Err(error) if error.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME) => {
                Ok(Look::Unprepared)
            }
            answer => self.read(answer).await,
        }
    }

    /// Leaves our statements with the connection, and begins anew.
    pub(crate) async fn prepare(&self) -> Result<Look> {
        let first = format!("ROLLBACK;{};BEGIN", self.phrases.prepare());
        self.read(self.look_after(&first).await).await
    }

    /// Waits until the other transaction is over, and looks at what it has left.
    pub(crate) async fn wait(&self, limit: Duration) -> Result<Look> {
        self.read(self.look_after(&self.phrases.wait(limit)).await).await
    }

    /// Begins anew, after an error.
    pub(crate) async fn again(&self) -> Result<Look> {
        self.read(self.look_after("ROLLBACK;BEGIN").await).await
    }

    /// Makes room, where the time of a record is up.
    async fn clear(&self) -> Result<()> {
        self.send(&self.phrases.clear()).await.map_err(error).map(drop)
    }

    /// Writes down what the work came to, and commits. The server leaves out what
    /// follows an error: nothing is committed without its record.
    pub(crate) async fn commit(
        &mut self,
        about: &str,
        keep: Duration,
        outcome: Option<&[u8]>,
    ) -> Result<()> {
        let record = self.phrases.record(about, keep, outcome);
        self.send(&format!("{record};COMMIT")).await.map_err(uncertain)?;
        self.over = true;
        Ok(())
    }

    async fn look_after(&self, first: &str) -> Answered {
        self.send(&format!("{first};{}", self.phrases.look())).await
    }

    /// Sends all statements at once.
    async fn send(&self, statements: &str) -> Answered {
        let answers = self.client.simple_query(statements).await?;
        Ok(answers.iter().rev().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    async fn read(&self, answer: Answered) -> Result<Look> {
        let row = answer.map_err(error)?.ok_or_else(garbled)?;
        let mut words = row.split(' ');
        let ours = words.next() == Some("t");
        match words.next() {
            Some("f") => Before::read(words).map(Look::Before).ok_or_else(garbled),
            None | Some(_) if !ours => Ok(Look::Busy),
            None => Ok(Look::Free),
            // Its time is up.
            Some(_) => self.clear().await.map(|()| Look::Free),
        }
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if !self.over {
            // The first poll sends it. Whatever the connection is given next comes
            // after it, so nobody has to wait for the answer.
            let mut end = pin!(self.client.batch_execute("ROLLBACK"));
            let _ = end.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// An error of a commit. If the connection ended with it, nobody knows which of
/// the two came first.
fn uncertain(cause: tokio_postgres::Error) -> Error {
    let severity = cause.as_db_error().and_then(|said| said.parsed_severity());
    let ended = matches!(severity, Some(Severity::Fatal | Severity::Panic));
    if cause.as_db_error().is_some() && !ended {
        return error(cause);
    }
    let text = "the connection ended while it committed: work and record are both there, or \
                neither is; ask again with the same key";
    Error::new(ErrorKind::Unavailable, text).caused_by(cause).unknown()
}
