//! Transactions of tokio-postgres.

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
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let prepared = self.prepare(statement).await.map_err(error)?;
        if prepared.columns().is_empty() {
            return Ok(Answer::new(self.execute(&prepared, &values).await.map_err(error)?, None));
        }
        let rows = self.query(&prepared, &values).await.map_err(error)?;
        let first = rows.first().and_then(|row| row.try_get::<_, Text>(0).ok());
        Ok(Answer::new(rows.len() as u64, first.map(|text| text.0)))
    }
}

/// A column that is text, or nothing.
struct Text(String);

impl<'a> FromSql<'a> for Text {
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

fn error(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(said) => fault::error(Dialect::Postgres, said.code().code(), said.message()),
        None => Error::new(ErrorKind::Unavailable, "the connection failed; begin anew on another")
            .caused_by(error)
            .unknown(),
    }
}
