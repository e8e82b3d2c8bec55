//! Transactions of mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row, Value};

use super::dialect::Dialect;
use super::fault;
use super::transaction::{Answer, Transaction};
use crate::error::{Error, ErrorKind, Result};

impl Transaction for mysql_async::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    async fn run(&mut self, statement: &str, values: &[&str]) -> Result<Answer> {
        let values = values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>();
        let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
        let answer = self.exec_iter(statement, values).await.map_err(error)?;
        let (gives_rows, changed) = (!answer.columns_ref().is_empty(), answer.affected_rows());
        let rows: Vec<Row> = answer.collect_and_drop().await.map_err(error)?;
        let first = rows.first().and_then(|row| row.get_opt::<String, _>(0)?.ok());
        Ok(Answer::new(if gives_rows { rows.len() as u64 } else { changed }, first))
    }
}

fn error(error: mysql_async::Error) -> Error {
    match error {
        mysql_async::Error::Server(said) => {
            fault::error(Dialect::Mysql, &said.code.to_string(), &said.message)
        }
        other => Error::new(ErrorKind::Unavailable, "the connection failed; begin anew on another")
            .caused_by(other)
            .unknown(),
    }
}
