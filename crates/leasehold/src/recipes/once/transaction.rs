//! Once, in the user's own transaction: work and record are committed together.

use std::time::Duration;

use super::builder::{Done, Failure, Kept, Once};
use super::fingerprint::Fingerprint;
use super::key::Key;
use super::refusal::Refusal;
use crate::error::{Error, Result};
use crate::hex;
use crate::sql::{Before, Claimed, OnceTable, Transaction};

/// What a transaction finds when it takes a key.
#[derive(Debug)]
pub enum InTransaction {
    /// Nobody has used it: do the work, then [`First::done`].
    First(First),
    /// It was done before, and this is what it came to.
    Done(Done),
}

/// The right to do the work of a key, in the transaction that has taken it.
#[must_use = "a key that was taken and not done has no outcome; roll back, or call `done`"]
#[derive(Debug)]
pub struct First {
    table: OnceTable,
    name: String,
    run: String,
    max_outcome: usize,
}

impl Once {
    /// Takes a key in your transaction. If you are the first, do the work in the
    /// same transaction and leave its outcome there with [`First::done`];
    /// otherwise you get what the first one came to.
    ///
    /// Commit, and both are there; roll back, or die, and neither is: **exactly
    /// one effect in that database** for as long as the key is kept. No lease is
    /// taken and the engine of these locks is not asked. Another transaction
    /// with the same key waits until yours is over.
    ///
    /// On PostgreSQL `Once::transact` does the same in fewer round trips.
    ///
    /// The table is `leasehold_once`; `leasehold schema postgres --once` prints it,
    /// and [`Once::table`] names another. A [`Key::trace`] is not for here:
    /// let a unique index say it.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn pay(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::once::{Fingerprint, InTransaction};
    ///
    /// let payments = leasehold::Locks::memory().once("payments");
    /// let mut tx = client.transaction().await?;
    /// let taken = payments.in_transaction(&mut tx, "key-of-the-client", Fingerprint::none());
    /// let done = match taken.await? {
    ///     InTransaction::Done(done) => done,
    ///     InTransaction::First(first) => {
    ///         tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", &[]).await?;
    ///         first.done(&mut tx, "paid").await?
    ///     }
    /// };
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refusal::Mismatch`] and [`Refusal::NotKept`] as [`Once::run`];
    /// [`Refusal::Engine`] with the error of the database: roll back.
    ///
    /// # Cancel safety
    ///
    /// Roll back if the future is dropped.
    pub async fn in_transaction(
        &self,
        transaction: &mut impl Transaction,
        key: impl Into<Key> + Send,
        fingerprint: Fingerprint,
    ) -> Result<InTransaction, Refusal> {
        let name = self.row(&key.into())?;
        let about = hex::encode(&fingerprint.to_bytes());
        match self.table.claim(transaction, &name, &about, self.keep).await? {
            Claimed::Before(before) => judge(before, &about).map(InTransaction::Done),
            Claimed::Ours(run) => {
                let (table, max_outcome) = (self.table.clone(), self.max_outcome);
                Ok(InTransaction::First(First { table, name, run, max_outcome }))
            }
        }
    }

    /// The name of a row: other namespaces share the table.
    pub(super) fn row(&self, key: &Key) -> Result<String> {
        if key.trace.is_some() || self.failure == Failure::Record {
            let text = "a trace, or a failure to be recorded, has no place in your transaction; \
                        a unique index, and a rollback, do that";
            return Err(Error::invalid(text));
        }
        let name = self.name(key)?;
        Ok(format!("{}/{name}", name.namespace().as_str()))
    }
}

impl First {
    /// Writes down what the work came to. Commit after it.
    ///
    /// # Errors
    ///
    /// The error of the database, or `NotHeld` if the key is not this
    /// transaction's: roll back.
    ///
    /// # Cancel safety
    ///
    /// Roll back if the future is dropped.
    pub async fn done(
        self,
        transaction: &mut impl Transaction,
        outcome: impl Into<Kept> + Send,
    ) -> Result<Done> {
        let Kept(outcome) = outcome.into();
        if let Some(outcome) = outcome.as_ref().filter(|it| it.len() <= self.max_outcome) {
            self.table.fill(transaction, &self.name, &self.run, outcome).await?;
        }
        Ok(Done::new(outcome.unwrap_or_default(), false, Duration::ZERO))
    }
}

/// What it means for someone who asks for `about`.
pub(super) fn judge(before: Before, about: &str) -> Result<Done, Refusal> {
    let none = hex::encode(&Fingerprint::none().to_bytes());
    if before.about != about && before.about != none && about != none {
        return Err(Refusal::Mismatch);
    }
    match before.outcome {
        Some(outcome) => Ok(Done::new(outcome, true, before.age)),
        None => Err(Refusal::NotKept { age: before.age }),
    }
}
