//! Once, in a transaction that is begun and committed here: on PostgreSQL, where
//! it costs no round trip.

use std::time::Duration;

use tokio_postgres::Client;

use super::builder::{Done, Kept, OnBusy, Once};
use super::fingerprint::Fingerprint;
use super::key::Key;
use super::refusal::{OnceError, Refusal};
use super::transaction::judge;
use crate::error::{Error, ErrorKind, Result};
use crate::hex;
use crate::sql::{Before, Look, Whole};

/// One key on one connection.
struct Deal<'a> {
    once: &'a Once,
    whole: Whole<'a>,
    about: String,
}

impl Once {
    /// Runs `work` in a transaction of PostgreSQL that is committed together with
    /// the record of the key: **exactly one effect in that database** for as long
    /// as the key is kept. If the key was used before, gives what it came to.
    ///
    /// It promises what [`Once::in_transaction`] does, and the two may be mixed,
    /// but it takes no more round trips than the work alone: the key is looked up
    /// together with `BEGIN`, and its record written together with `COMMIT`. Do
    /// not end the transaction yourself, and do nothing in `work` that a rollback
    /// does not undo: it may be rolled back after `work` has returned.
    ///
    /// Another one with the same key waits before its work, as
    /// [`Once::on_busy`] says. The level of isolation is that of the connection.
    ///
    /// ```no_run
    /// # async fn pay(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::once::Fingerprint;
    ///
    /// let payments = leasehold::Locks::memory().once("payments");
    /// let work = async |tx: &tokio_postgres::Client| {
    ///     tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", &[]).await?;
    ///     Ok::<_, tokio_postgres::Error>("paid")
    /// };
    /// let done = payments.transact(client, "key-of-the-client", Fingerprint::none(), work).await?;
    /// assert_eq!(done.outcome, b"paid");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OnceError::Failed`] with what `work` said. [`Refusal::Mismatch`],
    /// [`Refusal::NotKept`] and [`Refusal::Running`] as [`Once::run`];
    /// [`Refusal::Engine`] with the error of the database. After all of them the
    /// transaction was rolled back, unless the error is
    /// [unknown](crate::Effect::Unknown): the connection ended with the commit
    /// under way, and to ask again with the same key tells.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the transaction is rolled back, unless its commit
    /// was under way. The connection can be used again.
    pub async fn transact<'a, F, Fut, T, E>(
        &self,
        client: &'a mut Client,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(&'a Client) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<Kept>,
    {
        let client: &'a Client = client;
        let deal = Deal::new(self, client, &key.into(), fingerprint)?;
        let look = deal.whole.begin().await?;
        match deal.settled(look).await? {
            Some(before) => Ok(judge(before, &deal.about)?),
            None => deal.close(work(client).await).await,
        }
    }
}

impl<'a> Deal<'a> {
    fn new(once: &'a Once, client: &'a Client, key: &Key, about: Fingerprint) -> Result<Self> {
        let whole = Whole::new(client, &once.table, &once.row(key)?);
        Ok(Self { once, whole, about: hex::encode(&about.to_bytes()) })
    }

    /// What was left by someone before us; nothing, if the key is ours.
    async fn settled(&self, look: Look) -> Result<Option<Before>, Refusal> {
        let look = match look {
            Look::Unprepared => self.whole.prepare().await?,
            look => look,
        };
        let look = match look {
            Look::Busy => self.wait().await?,
            look => look,
        };
        match look {
            Look::Before(before) => Ok(Some(before)),
            Look::Free => Ok(None),
            Look::Busy | Look::Unprepared => Err(astray().into()),
        }
    }

    async fn wait(&self) -> Result<Look, Refusal> {
        let OnBusy::Wait(limit) = self.once.busy else {
            let text = "another transaction is at the key; ask again later";
            return Err(Refusal::Running(Error::new(ErrorKind::TimedOut, text)));
        };
        self.whole.wait(limit).await.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => Refusal::Running(error),
            _ => Refusal::Engine(error),
        })
    }

    /// Commits what the work came to, or rolls it back if it failed.
    async fn close<T: Into<Kept>, E>(
        mut self,
        outcome: Result<T, E>,
    ) -> Result<Done, OnceError<E>> {
        let Kept(outcome) = outcome.map_err(OnceError::Failed)?.into();
        let kept = outcome.as_deref().filter(|it| it.len() <= self.once.max_outcome);
        match self.whole.commit(&self.about, self.once.keep, kept).await {
            Ok(()) => Ok(Done::new(outcome.unwrap_or_default(), false, Duration::ZERO)),
            Err(error) => Ok(self.overtaken(error).await?),
        }
    }

    /// It was not committed. If that is because someone was faster, there is a
    /// record now.
    async fn overtaken(&self, error: Error) -> Result<Done, Refusal> {
        match self.whole.again().await {
            Ok(Look::Before(before)) => judge(before, &self.about),
            _ => Err(error.into()),
        }
    }
}

fn astray() -> Error {
    let text = "the connection is not what it was a moment ago; run all of it again";
    Error::new(ErrorKind::Unavailable, text)
}
