//! Once, in the user's own transaction: work and record are committed together.

use std::fmt::Display;
use std::time::Duration;

use super::builder::{Done, Failure, Kept, Once};
use super::fingerprint::Fingerprint;
use super::key::Key;
use super::refusal::{OnceError, Refusal};
use crate::error::{Error, Result};
use crate::hex;
use crate::sql::{Before, Claimed, OnceTable, Transaction};

impl Once {
    /// Runs `work` in your transaction if nobody has with this key, and records
    /// its outcome in the same transaction; otherwise gives what the first one
    /// came to.
    ///
    /// Commit, and both are there; roll back, or die, and neither is: **exactly
    /// one effect in that database** for as long as the key is kept. No lease is
    /// taken and the engine of these locks is not asked. Another transaction
    /// with the same key waits until yours is over.
    ///
    /// The table is `leasehold_once`; `leasehold schema postgres --once` prints it,
    /// and [`Once::in_table`] takes another. A [`Key::trace`] is not for here:
    /// let a unique index say it.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn pay(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::once::Fingerprint;
    ///
    /// let payments = leasehold::Locks::memory().once("payments");
    /// let mut tx = client.transaction().await?;
    /// let done = payments
    ///     .in_transaction(&mut tx, "key-of-the-client", Fingerprint::none(), async |tx| {
    ///         tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", &[]).await?;
    ///         Ok::<_, tokio_postgres::Error>("paid")
    ///     })
    ///     .await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OnceError::Failed`] with the error of `work`, and every error of the
    /// engine: roll back. [`Refusal::Mismatch`] and [`Refusal::NotKept`] as
    /// [`Once::run`].
    ///
    /// # Cancel safety
    ///
    /// Roll back if the future is dropped.
    pub async fn in_transaction<X, T, E>(
        &self,
        transaction: &mut X,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        work: impl AsyncFnOnce(&mut X) -> Result<T, E>,
    ) -> Result<Done, OnceError<E>>
    where
        X: Transaction,
        T: Into<Kept>,
        E: Display,
    {
        self.in_table(OnceTable::default(), transaction, key, fingerprint, work).await
    }

    /// As [`Once::in_transaction`], with the keys in this table.
    ///
    /// # Errors
    ///
    /// As [`Once::in_transaction`].
    ///
    /// # Cancel safety
    ///
    /// Roll back if the future is dropped.
    pub async fn in_table<X, T, E>(
        &self,
        table: OnceTable,
        transaction: &mut X,
        key: impl Into<Key>,
        fingerprint: Fingerprint,
        work: impl AsyncFnOnce(&mut X) -> Result<T, E>,
    ) -> Result<Done, OnceError<E>>
    where
        X: Transaction,
        T: Into<Kept>,
        E: Display,
    {
        let name = self.row(&key.into())?;
        let about = hex::encode(&fingerprint.to_bytes());
        let run = match table.claim(transaction, &name, &about, self.keep).await? {
            Claimed::Ours(run) => run,
            Claimed::Before(before) => return Ok(judge(before, &about)?),
        };
        let Kept(outcome) = work(transaction).await.map_err(OnceError::Failed)?.into();
        if let Some(outcome) = outcome.as_ref().filter(|it| it.len() <= self.max_outcome) {
            table.fill(transaction, &name, &run, outcome).await?;
        }
        Ok(Done::new(outcome.unwrap_or_default(), false, Duration::ZERO))
    }

    /// The name of a row: other namespaces share the table.
    fn row(&self, key: &Key) -> Result<String> {
        if key.trace.is_some() || self.failure == Failure::Record {
            let text = "a trace, or a failure to be recorded, has no place in your transaction; \
                        a unique index, and a rollback, do that";
            return Err(Error::invalid(text));
        }
        let name = self.name(key)?;
        Ok(format!("{}/{name}", name.namespace().as_str()))
    }
}

fn judge(before: Before, about: &str) -> Result<Done, Refusal> {
    let none = hex::encode(&Fingerprint::none().to_bytes());
    if before.about != about && before.about != none && about != none {
        return Err(Refusal::Mismatch);
    }
    match before.outcome {
        Some(outcome) => Ok(Done::new(outcome, true, before.age)),
        None => Err(Refusal::NotKept { age: before.age }),
    }
}
