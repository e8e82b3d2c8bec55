//! Locks and fences inside your own database transaction.
//!
//! A lease protects work that a database knows nothing of. Where the work *is*
//! a transaction, the database can do more than any lease: it refuses the late
//! writer in the statement that writes. This module has the statements for it.
//!
//! | to | use |
//! |---|---|
//! | refuse a holder whose lease is over | [`fence_check`], [`fenced_update`] |
//! | notice that someone else has written since you read | [`versioned_update`] |
//! | keep others away from a row until you commit | [`lock_row`] |
//! | keep others away from a *name* until you commit | [`lock_in`] |
//! | do work once for each key, with its record in the same transaction | `OnceTable` |
//! | refuse writers that do not use this library | [`guard`] |
//! | see whether a table is fit for all this | [`examine`](fn@examine) |
//!
//! They are texts: give them to sqlx, diesel, sea-orm or a driver of your choice,
//! and no driver of ours is needed. What a server answers is turned into an
//! [`Error`](crate::Error) by [`error`].
//!
//! ```
//! use leasehold::sql::{self, Dialect};
//!
//! let check = sql::fence_check(Dialect::Postgres, "goods", "id", "fence")?;
//! assert_eq!(
//!     check.text(),
//!     r#"UPDATE "goods" SET "fence" = $1 WHERE "id" = $2 AND "fence" <= $1"#
//! );
//! assert_eq!(check.values(), ["fence", "id"]);
//! # Ok::<(), leasehold::Error>(())
//! ```
//!
//! With the feature `postgres` a transaction of tokio-postgres, and with `mysql`
//! one of mysql_async, is a [`Transaction`] that [`lock_in`] takes as it is.

mod dialect;
mod fault;
mod guard;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
#[cfg(feature = "once")]
mod once;
#[cfg(all(feature = "once", feature = "postgres"))]
mod phrases;
pub(crate) mod plan;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
mod statement;
mod transaction;
mod update;
#[cfg(all(feature = "once", feature = "postgres"))]
mod whole;

pub use dialect::Dialect;
pub use fault::error;
pub use guard::{Rule, guard};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use names::TABLE as LOCK_IN;
pub use names::{NameTable, lock_in};
#[cfg(feature = "once")]
pub use once::OnceTable;
#[cfg(feature = "once")]
pub(crate) use once::{Before, Claimed};
pub use plan::examine;
pub use row::{Wait, lock_row, wait_limit};
pub use statement::Statement;
pub use transaction::{Answer, Transaction};
pub use update::{fence_check, fenced_update, versioned_update};
#[cfg(all(feature = "once", feature = "postgres"))]
pub(crate) use whole::{Look, Whole};
