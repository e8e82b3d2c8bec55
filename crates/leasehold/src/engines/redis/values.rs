//! What scripts answer, taken apart.

use redis::Value;

use crate::error::{Error, ErrorKind, Result};

/// The parts of an array.
pub(super) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(parts) => Ok(parts),
        other => Err(unexpected(&other)),
    }
}

/// A whole number, as such or in digits.
pub(super) fn number(value: &Value) -> Result<i64> {
    let parsed = match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(digits) => {
            std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok())
        }
        _ => None,
    };
    parsed.ok_or_else(|| unexpected(value))
}

/// Text; what is no UTF-8 is shown as well as it can be.
pub(super) fn text(value: &Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Ok(text.clone()),
        other => Err(unexpected(other)),
    }
}

/// The part at `place`.
pub(super) fn part(parts: &[Value], place: usize) -> Result<&Value> {
    parts.get(place).ok_or_else(|| Error::new(ErrorKind::Unexpected, "the answer is too short"))
}

/// Its value is not shown: it may be a lease id.
fn unexpected(value: &Value) -> Error {
    let kind = match value {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) => "text",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    Error::new(ErrorKind::Unexpected, format!("the server answered {kind} out of place"))
}
