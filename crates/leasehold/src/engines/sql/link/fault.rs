//! What an error of a driver or a server means to a caller.

use crate::error::{Error, ErrorKind};

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: Error,
    /// It was in the way of another and had no effect: it may be repeated.
    pub(super) again: bool,
    /// The connection is of no use any more.
    pub(super) broken: bool,
}

impl Fault {
    /// The connection went before the answer came.
    fn broken(cause: impl std::fmt::Display) -> Self {
        let error = Error::new(ErrorKind::Unavailable, "the connection broke before the answer");
        Self { error: error.caused_by(cause).unknown(), again: false, broken: true }
    }
}

/// The answer came, and is not what it should be.
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error: error.unknown(), again: false, broken: false }
    }
}

/// There is no connection now, so nothing was sent.
pub(super) fn away(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}

/// No answer came in time to a statement that was sent.
pub(super) fn late() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within the time-out").unknown()
}

#[cfg(feature = "postgres")]
pub(super) fn postgres(cause: &tokio_postgres::Error) -> Fault {
    let Some(said) = cause.as_db_error() else {
        return Fault::broken(cause);
    };
    let code = said.code().code();
    let again = matches!(code, "40001" | "40P01" | "55P03");
    let error = Error::new(ErrorKind::Unexpected, "the server refused a statement");
    Fault { error: error.with("code", code).caused_by(said.message()), again, broken: false }
}

#[cfg(feature = "mysql")]
pub(super) fn mysql(cause: &mysql_async::Error) -> Fault {
    let mysql_async::Error::Server(said) = cause else {
        return Fault::broken(cause);
    };
    let again = matches!(said.code, 1213 | 1205 | 1020);
    let error = Error::new(ErrorKind::Unexpected, "the server refused a statement");
    Fault { error: error.with("code", said.code).caused_by(&said.message), again, broken: false }
}
