//! Values as MySQL has them.

use mysql_async::consts::ColumnType;
use mysql_async::{Column, Params};

use super::super::fault;
use super::super::value::{ReplyRow, Value};
use crate::error::{Error, Result};

/// The number of the character set that means "no characters".
const BINARY: u16 = 63;

pub(super) fn params(values: &[Value]) -> Params {
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

pub(super) fn read(row: mysql_async::Row) -> Result<ReplyRow> {
    let columns = row.columns();
    let values = columns.iter().zip(row.unwrap());
    values.map(|(column, value)| read_one(column, value)).collect::<Result<_>>().map(ReplyRow::new)
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
    fault::odd("a column has an unexpected type").with("column", column.name_str())
}
