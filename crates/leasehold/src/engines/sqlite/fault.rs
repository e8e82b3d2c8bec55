//! What can go wrong below, in the words of the library.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

/// What stops a verb.
#[derive(Debug)]
pub(super) enum StoreFault {
    /// This verb alone is refused, and the transaction goes on: a name that it has
    /// saved stays so, one that it has not is as if it had not been asked.
    Refused(Error),
    /// The store failed: the whole transaction is undone.
    Store(rusqlite::Error),
}

/// A result inside a transaction.
pub(super) type Trial<T> = Result<T, StoreFault>;

impl StoreFault {
    /// The same, of a verb that has done a part of its work. A store that failed has
    /// undone that.
    pub(super) fn unknown(self) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(error.unknown()),
            failed @ Self::Store(_) => failed,
        }
    }
}

impl From<rusqlite::Error> for StoreFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Error> for StoreFault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// An error of this engine, with its place.
pub(super) fn error(kind: ErrorKind, message: impl Into<String>, path: &Path) -> Error {
    Error::new(kind, message).with("engine", "sqlite").with("path", path.display())
}

/// For whoever comes after the end.
pub(super) fn closed() -> Error {
    let message = "this engine is closed: open it again";
    Error::new(ErrorKind::Unavailable, message).with("engine", "sqlite")
}

/// What SQLite said, and what to do about it.
pub(super) fn told(cause: &rusqlite::Error, path: &Path) -> Error {
    let (kind, message) = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            "the store was in use by another process for too long: try again, \
             and look for a stopped process or a backup that keeps it open",
        ),
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Unavailable,
            "the disk is full: nothing was granted; free some space and try again",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            ErrorKind::Denied,
            "the store cannot be written: give this user write access to the file and its folder",
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Unexpected,
            "the store is damaged: stop all its users, move the file and its -wal away, \
             keep them for a look, and start with a new one",
        ),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Invalid, NOT_A_DATABASE),
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Unavailable,
            "the file system failed: look into the system's log before trying again",
        ),
        _ => (ErrorKind::Unexpected, "the store answered with an error"),
    };
    error(kind, message, path).caused_by(cause)
}

pub(super) const NOT_A_DATABASE: &str = "this file is not a lock store, and it was left as it is: \
     choose another path, or move the file away";
