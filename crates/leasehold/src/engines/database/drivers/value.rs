//! What goes into a statement and what comes out of one.

use std::fmt;

use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};

/// One value. Columns are of three kinds only, so that the families agree.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl fmt::Debug for Value {
    /// Not the content: it may be a token or the user's record.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "text of {}", text.len()),
            Self::Bytes(bytes) => write!(f, "bytes of {}", bytes.len()),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of an answer; columns are asked for by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyRow(Vec<Value>);

impl ReplyRow {
    pub(crate) const fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    pub(crate) fn int(&self, at: usize) -> Result<i64> {
        self.maybe_int(at)?.ok_or_else(|| self.wrong(at, "a number"))
    }

    pub(crate) fn maybe_int(&self, at: usize) -> Result<Option<i64>> {
        match self.0.get(at) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.wrong(at, "a number")),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Result<&str> {
        self.maybe_text(at)?.ok_or_else(|| self.wrong(at, "text"))
    }

    pub(crate) fn maybe_text(&self, at: usize) -> Result<Option<&str>> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.wrong(at, "text")),
        }
    }

    pub(crate) fn bytes(&self, at: usize) -> Result<&[u8]> {
        self.maybe_bytes(at)?.ok_or_else(|| self.wrong(at, "bytes"))
    }

    pub(crate) fn maybe_bytes(&self, at: usize) -> Result<Option<&[u8]>> {
        match self.0.get(at) {
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::Null) => Ok(None),
            _ => Err(self.wrong(at, "bytes")),
        }
    }

    /// Every column as text.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::Int(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.0.iter().map(text).collect()
    }

    fn wrong(&self, at: usize, wanted: &str) -> Error {
        let found = self.0.get(at).map_or_else(|| "nothing".to_owned(), |it| format!("{it:?}"));
        let message = format!("the database answered {found} where {wanted} was expected");
        Error::new(ErrorKind::Unexpected, message).with("column", at)
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) rows: Vec<ReplyRow>,
    /// How many rows were inserted, deleted or met by an update, whether or not
    /// it changed their values. MySQL counts two where an insert became an
    /// update.
    pub(crate) affected: u64,
    /// What MySQL's `LAST_INSERT_ID(..)` was set to.
    pub(crate) last_id: u64,
    /// When the statement left.
    pub(crate) sent_at: Moment,
}

/// One statement of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct SqlStep {
    pub(crate) sql: std::sync::Arc<str>,
    pub(crate) values: Vec<Value>,
    /// Whether the transaction is given up if this meets no row.
    pub(crate) must_change: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_they_are_asked_for_or_an_error() {
        let row =
            ReplyRow::new(vec![7.into(), "a".into(), vec![1].into(), Option::<i64>::None.into()]);
        assert_eq!(row.int(0).unwrap(), 7);
        assert_eq!(row.text(1).unwrap(), "a");
        assert_eq!(row.bytes(2).unwrap(), [1]);
        assert_eq!(row.maybe_int(3).unwrap(), None);
        for wrong in [row.int(1), row.int(3), row.int(4)] {
            assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Unexpected);
        }
    }

    #[test]
    fn debug_does_not_tell_content() {
        let row = ReplyRow::new(vec!["hunter2".into(), b"hunter2".to_vec().into()]);
        assert!(!format!("{row:?}").contains("hunter2"));
    }
}
