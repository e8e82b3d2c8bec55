//! Names that stay locked until the transaction ends: one row each.

use std::time::Duration;

use super::dialect::{Dialect, check_table};
use super::row::{Wait, wait_limit};
use super::transaction::Transaction;
use crate::engine::Finding;
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// The table that [`lock_in`] uses.
pub(crate) const TABLE: &str = "leasehold_name_locks";
/// A wait that is none: what MariaDB takes for zero, MySQL for a second.
const NONE: Duration = Duration::ZERO;
/// How often a row may vanish under our hands before we say so.
const TRIES: u32 = 5;

/// Locks `name` until the transaction ends; false if someone else has it.
///
/// For what has no row of its own to lock: "the import of customer 7". It locks
/// a row of the table `leasehold_name_locks`, and makes it first if need be, without
/// errors that would end the transaction. `leasehold schema` prints the table;
/// see [`NameTable`] for another one. Rows stay; delete old ones as you like.
///
/// [`Wait::Always`] is never false. On MySQL [`Wait::No`] may wait for a second
/// if another is just locking the same name for the first time ever.
///
/// If the future is dropped, the lock may have been taken: roll back.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn import(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold::sql::{self, Wait};
///
/// let mut tx = client.transaction().await?;
/// if sql::lock_in(&mut tx, "import/7", Wait::No).await? {
///     tx.execute("UPDATE customers SET imported = now() WHERE id = 7", &[]).await?;
///     tx.commit().await?; // also unlocks
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// `Invalid` for a bad name or if there is no such table; `Unavailable` for a
/// deadlock or a conflict: roll back and run all of it again. `Unsupported` on
/// SQLite, which locks whole files.
pub async fn lock_in(
    transaction: &mut impl Transaction,
    name: impl AsRef<str> + Send,
    wait: Wait,
) -> Result<bool> {
    NameTable::new(TABLE)?.lock_in(transaction, name, wait).await
}

/// A table of names to lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTable(String);

impl NameTable {
    /// The table of this name, which may have its schema before a dot.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that is none.
    pub fn new(table: impl Into<String>) -> Result<Self> {
        let table = table.into();
        check_table(&table)?;
        Ok(Self(table))
    }

    /// The statement that creates it, if it is not there.
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> String {
        dialect.syntax().names_schema(&self.quoted(dialect))
    }

    /// As [`lock_in`](fn@lock_in), in this table.
    ///
    /// If the future is dropped, the lock may have been taken: roll back.
    ///
    /// # Errors
    ///
    /// As [`lock_in`](fn@lock_in).
    pub async fn lock_in(
        &self,
        transaction: &mut impl Transaction,
        name: impl AsRef<str> + Send,
        wait: Wait,
    ) -> Result<bool> {
        let name = Name::new(&Namespace::default(), name.as_ref())?;
        let dialect = transaction.dialect();
        let row = NameToLock { tx: transaction, table: self.quoted(dialect), name: name.as_str() };
        match dialect {
            Dialect::Postgres => row.in_postgres(wait).await,
            Dialect::Mysql => row.in_mysql(wait).await,
            Dialect::Sqlite => Err(Error::new(
                ErrorKind::Unsupported,
                "SQLite has no row locks; begin the transaction with BEGIN IMMEDIATE",
            )),
        }
    }

    /// Looks whether the server finds a name by its key, as
    /// [`examine`](fn@super::examine) does.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such table.
    ///
    /// # Cancel safety
    ///
    /// Roll the transaction back if the future is dropped: on PostgreSQL a setting of the
    /// planner may be left changed until its end.
    pub async fn examine(&self, transaction: &mut impl Transaction) -> Result<Option<Finding>> {
        super::plan::examine(transaction, &self.0, "name").await
    }

    /// Checked when it was made.
    fn quoted(&self, dialect: Dialect) -> String {
        dialect.table(&self.0).unwrap_or_default()
    }
}

/// One row that is to be locked.
struct NameToLock<'a, T> {
    tx: &'a mut T,
    table: String,
    name: &'a str,
}

impl<T: Transaction> NameToLock<'_, T> {
    async fn in_postgres(mut self, wait: Wait) -> Result<bool> {
        let limit = match wait {
            Wait::Always => return self.take("").await,
            Wait::No | Wait::Skip => NONE,
            Wait::AtMost(limit) => limit,
        };
        let skip = if limit.is_zero() { " SKIP LOCKED" } else { "" };
        let before = self.plain("SELECT current_setting('lock_timeout')").await?;
        // A wait that ends in an error would end the transaction with it.
        self.plain("SAVEPOINT leasehold_lock").await?;
        self.plain(wait_limit(Dialect::Postgres, limit).text()).await?;
        let taken = match self.take(skip).await {
            Err(error) if error.is_timed_out() => {
                self.plain("ROLLBACK TO SAVEPOINT leasehold_lock").await?;
                false
            }
            taken => taken?,
        };
        let back = "SELECT set_config('lock_timeout', $1, true)";
        self.tx.run(back, &[before.as_deref().unwrap_or("0")]).await?;
        self.plain("RELEASE SAVEPOINT leasehold_lock").await?;
        Ok(taken)
    }

    /// The row, locked or made; false if it was skipped.
    async fn take(&mut self, skip: &str) -> Result<bool> {
        let table = &self.table;
        let lock = format!("SELECT name FROM {table} WHERE name = $1 FOR UPDATE{skip}");
        let make = format!("INSERT INTO {table} (name) VALUES ($1) ON CONFLICT DO NOTHING");
        for _ in 0..TRIES {
            let values = [self.name];
            if self.tx.run(&lock, &values).await?.rows > 0
                || self.tx.run(&make, &values).await?.rows > 0
            {
                return Ok(true);
            }
            if !skip.is_empty() {
                return Ok(false);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the row of the name is deleted again and again"))
    }

    async fn in_mysql(mut self, wait: Wait) -> Result<bool> {
        let limit = match wait {
            Wait::Always => return self.upsert().await.map(|()| true),
            Wait::No | Wait::Skip => NONE,
            Wait::AtMost(limit) => limit,
        };
        if limit.is_zero() && self.is_there().await? {
            return self.skip().await;
        }
        let before = self.plain("SELECT CAST(@@innodb_lock_wait_timeout AS CHAR)").await?;
        self.plain(&limit_of(limit)).await?;
        let taken = self.upsert().await;
        let before = before.unwrap_or_else(|| "50".into());
        self.plain(&format!("SET SESSION innodb_lock_wait_timeout = {before}")).await?;
        match taken {
            Err(error) if error.is_timed_out() => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    /// Locks the row at once, whether it is there or not. `INSERT IGNORE` would
    /// share the lock first, and two that do so wait for each other; so do two
    /// that lock the gap where a row is missing.
    async fn upsert(&mut self) -> Result<()> {
        let table = &self.table;
        let upsert =
            format!("INSERT INTO {table} (name) VALUES (?) ON DUPLICATE KEY UPDATE name = name");
        self.tx.run(&upsert, &[self.name]).await.map(drop)
    }

    async fn is_there(&mut self) -> Result<bool> {
        let look = format!("SELECT 1 FROM {} WHERE name = ?", self.table);
        Ok(self.tx.run(&look, &[self.name]).await?.rows > 0)
    }

    async fn skip(&mut self) -> Result<bool> {
        let lock = format!("SELECT 1 FROM {} WHERE name = ? FOR UPDATE SKIP LOCKED", self.table);
        Ok(self.tx.run(&lock, &[self.name]).await?.rows > 0)
    }

    async fn plain(&mut self, statement: &str) -> Result<Option<String>> {
        Ok(self.tx.run(statement, &[]).await?.first)
    }
}

fn limit_of(limit: Duration) -> String {
    match limit {
        NONE => "SET SESSION innodb_lock_wait_timeout = 0".into(),
        limit => wait_limit(Dialect::Mysql, limit).to_string(),
    }
}
