//! What an error of a driver or a server means to a caller.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;

use std::fmt::Display;

use crate::error::{Effect, Error, ErrorKind};

/// Why a statement failed.
#[derive(Debug)]
pub(crate) struct SqlFault {
    pub(crate) error: Error,
    /// It had no effect and may be repeated: another was in its way, or what was
    /// prepared for it is stale.
    pub(crate) again: bool,
    /// The connection is of no use any more.
    pub(crate) broken: bool,
}

impl SqlFault {
    /// The connection went before the answer came.
    fn unanswered(cause: impl Display) -> Self {
        let error = Error::new(ErrorKind::Unavailable, "the connection broke before the answer");
        Self { error: error.caused_by(cause).unknown(), again: false, broken: true }
    }

    /// The connection went before anything was sent.
    pub(crate) fn gone() -> Self {
        Self { error: away("the connection is gone"), again: false, broken: true }
    }

    /// What went before it has had an effect, and is not repeated with it.
    pub(crate) fn unknown(self) -> Self {
        Self { error: self.error.unknown(), again: false, ..self }
    }

    /// What was never committed had no effect, even if its answer is lost.
    pub(crate) fn undone(self) -> Self {
        let error = match self.error.effect() {
            Effect::NotApplied => self.error,
            Effect::Unknown => {
                Error::new(self.error.kind(), "the connection broke before anything was done")
                    .caused_by(self.error)
            }
        };
        Self { error, ..self }
    }
}

/// Fewer answers than statements.
pub(crate) fn unsaid() -> Error {
    odd("no answer to a statement")
}

/// The answer came, and is not what it should be.
impl From<Error> for SqlFault {
    fn from(error: Error) -> Self {
        Self { error: error.unknown(), again: false, broken: false }
    }
}

/// What a server's error code means: the kind, and what to do.
type Meaning = (ErrorKind, &'static str);

/// What a server has said, if anything may be repeated of it.
fn refusal(known: Option<Meaning>, code: impl Display, said: &str) -> Error {
    let unknown = (ErrorKind::Unexpected, "the server refused a statement");
    let (kind, message) = known.unwrap_or(unknown);
    let error = Error::new(kind, message).with("code", code);
    if said.is_empty() { error } else { error.caused_by(said) }
}

/// There is no connection now, so nothing was sent.
pub(crate) fn away(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}

/// This should not have come back.
pub(crate) fn odd(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, what)
}

/// No answer came in time to a statement that was sent.
pub(crate) fn late() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within the time-out").unknown()
}

/// A server that takes no writes.
pub(crate) fn read_only() -> Error {
    away(
        "the server is a replica or read-only; name all servers in the URL \
          (host1,host2), and the one that takes writes is found",
    )
}

/// Several servers that take writes, none of which is the right one.
pub(crate) fn rivals(servers: &str, apart: bool) -> Error {
    let why = if apart {
        "advisory locks are known to one server alone, also in a cluster"
    } else {
        "are not one Galera or group replication cluster"
    };
    let message = format!(
        "{servers} all take writes and {why}, so two clients could hold one name, each on another \
         server; make all but one read-only, or name only one in the URL (rivals=allow where \
         every fence is checked at the resource)"
    );
    Error::new(ErrorKind::Unsupported, message)
}
