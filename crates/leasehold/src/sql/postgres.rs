//! Transactions of tokio-postgres.

use std::future::poll_fn;

use futures_core::Stream;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::dialect::Dialect;
use super::fault;
use super::transaction::{Answer, Transaction};
use crate::error::{Error, ErrorKind, Result};

impl Transaction for tokio_postgres::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn run(&mut self, statement: &str, values: &[&str]) -> Result<Answer> {
        // Said to be texts, so that the server need not be asked what they are:
        // one round trip instead of two, and nothing prepared to be cleaned up.
        let values = values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT));
        let rows = self.query_typed_raw(statement, values).await.map_err(error)?;
        let mut rows = std::pin::pin!(rows);
        let mut first = None;
        while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
            let row = row.map_err(error)?;
            first = first.or_else(|| row.try_get::<_, TextColumn>(0).ok().map(|text| text.0));
        }
        Ok(Answer::new(rows.rows_affected().unwrap_or(0), first))
    }
}

/// A column that is text, or nothing.
struct TextColumn(String);

impl<'a> FromSql<'a> for TextColumn {
    fn from_sql(
        ty: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        <&str as FromSql<'_>>::from_sql(ty, raw).map(|text| Self(text.to_owned()))
    }

    fn accepts(ty: &Type) -> bool {
        <&str as FromSql<'_>>::accepts(ty)
    }
}

pub(super) fn error(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(said) => fault::error(Dialect::Postgres, said.code().code(), said.message()),
        None => Error::new(ErrorKind::Unavailable, "the connection failed; begin anew on another")
            .caused_by(error)
            .unknown(),
    }
}
