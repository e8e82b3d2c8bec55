//! The user's transaction, whoever drives it.

use super::dialect::Dialect;
use crate::error::Result;

/// A transaction of yours, of whatever driver: what [`lock_in`](super::lock_in)
/// needs of it.
///
/// tokio-postgres (feature `postgres`) and mysql_async (feature `mysql`) have it.
/// For another driver write these two functions; [`error`](super::error) turns
/// the server's codes into errors.
pub trait Transaction: Send {
    /// How the server writes its SQL.
    fn dialect(&self) -> Dialect;

    /// Runs one statement with texts in its places.
    ///
    /// If the future is dropped, the statement may have run; roll back.
    fn run(
        &mut self,
        statement: &str,
        values: &[&str],
    ) -> impl Future<Output = Result<Answer>> + Send;
}

/// What a statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// How many rows it gave, or changed if it gives none.
    pub rows: u64,
    /// The first column of the first row, as text.
    pub first: Option<String>,
}

impl Answer {
    /// So many rows, the first of which begins with this.
    #[must_use]
    pub const fn new(rows: u64, first: Option<String>) -> Self {
        Self { rows, first }
    }
}
