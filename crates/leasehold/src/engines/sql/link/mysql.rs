//! One connection to a MySQL or MariaDB.

use std::sync::Arc;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Opts, OptsBuilder, Params};

use super::address::Address;
use super::fault::{self, Fault};
use super::settings::Settings;
use super::value::{Reply, Row, Value};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// The number of the character set that means "no characters".
const BINARY: u16 = 63;

/// A connection; it ends with its value.
pub(super) struct Wire(Conn);

impl Wire {
    pub(super) async fn open(address: &Address, settings: &Settings) -> Result<Self> {
        let made = Conn::new(options(address, settings)).await;
        made.map(Self).map_err(|cause| fault::mysql(&cause).error)
    }

    pub(super) async fn run(
        &mut self,
        sql: &Arc<str>,
        values: &[Value],
        clock: &Clock,
    ) -> Result<Reply, Fault> {
        let failed = |cause| fault::mysql(&cause);
        let statement = self.0.prep(sql.as_ref()).await.map_err(failed)?;
        let sent_at = clock.now();
        let mut result = self.0.exec_iter(&statement, params(values)).await.map_err(failed)?;
        let found: Vec<mysql_async::Row> = result.collect().await.map_err(failed)?;
        let affected = result.affected_rows();
        result.drop_result().await.map_err(failed)?;
        let rows = found.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Reply { rows, affected, sent_at })
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        self.0.query_drop(sql).await.map_err(|cause| fault::mysql(&cause))
    }
}

fn options(address: &Address, settings: &Settings) -> Opts {
    let login = &settings.target.login;
    let builder = OptsBuilder::default()
        .ip_or_hostname(&address.host)
        .tcp_port(address.port)
        .user(Some(&login.user))
        .pass(login.password.as_ref())
        .db_name(Some(&settings.target.database))
        .prefer_socket(false)
        // As PostgreSQL counts: what an update met, changed or not.
        .client_found_rows(true);
    builder.into()
}

fn params(values: &[Value]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    Params::Positional(values.iter().map(write).collect())
}

fn write(value: &Value) -> mysql_async::Value {
    match value {
        Value::Null => mysql_async::Value::NULL,
        Value::Int(number) => mysql_async::Value::Int(*number),
        Value::Text(text) => mysql_async::Value::Bytes(text.clone().into_bytes()),
        Value::Bytes(bytes) => mysql_async::Value::Bytes(bytes.clone()),
    }
}

fn read(row: mysql_async::Row) -> Result<Row> {
    let columns = row.columns();
    let values = columns.iter().zip(row.unwrap());
    values.map(|(column, value)| read_one(column, value)).collect::<Result<_>>().map(Row::new)
}

fn read_one(column: &Column, value: mysql_async::Value) -> Result<Value> {
    match value {
        mysql_async::Value::NULL => Ok(Value::Null),
        mysql_async::Value::Int(number) => Ok(Value::Int(number)),
        mysql_async::Value::UInt(number) => {
            i64::try_from(number).map(Value::Int).map_err(|_| wrong(column))
        }
        mysql_async::Value::Bytes(bytes) => read_bytes(column, bytes),
        _ => Err(wrong(column)),
    }
}

/// Text, bytes, or a number that the server computed as a decimal.
fn read_bytes(column: &Column, bytes: Vec<u8>) -> Result<Value> {
    if column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL {
        let text = std::str::from_utf8(&bytes).ok();
        return text.and_then(|it| it.parse().ok()).map(Value::Int).ok_or_else(|| wrong(column));
    }
    if column.character_set() == BINARY {
        return Ok(Value::Bytes(bytes));
    }
    String::from_utf8(bytes).map(Value::Text).map_err(|_| wrong(column))
}

fn wrong(column: &Column) -> Error {
    Error::new(ErrorKind::Unexpected, "a column has an unexpected type")
        .with("column", column.name_str())
}
