//! What a refusal or a silence means to a caller.

use super::wire::Code;
use crate::error::{Error, ErrorKind};

/// The server's answer, if it is an error.
pub(super) fn refused(code: Code) -> Error {
    let (kind, message) = match code {
        Code::NO_AUTH => {
            (ErrorKind::Denied, "the ACL of a node forbids this; give ?auth= of who may")
        }
        Code::AUTH_FAILED => (ErrorKind::Denied, "the server refuses this user or password"),
        Code::INVALID_ACL => {
            (ErrorKind::Invalid, "the server knows no creator; give ?auth= with acl=creator")
        }
        Code::SESSION_EXPIRED => (ErrorKind::Unavailable, "the session is over"),
        Code::SESSION_MOVED => (ErrorKind::Unavailable, "the session has moved to another server"),
        Code::UNIMPLEMENTED => {
            (ErrorKind::Unsupported, "the server is too old; ZooKeeper 3.6 or newer is needed")
        }
        Code(-4 | -7 | -127) => (ErrorKind::Unavailable, "the server cannot serve now"),
        Code(-119) => (ErrorKind::Unavailable, "the server has no majority and only reads"),
        Code(-108) => {
            (ErrorKind::Invalid, "a node that goes with a session can have none below it")
        }
        Code(-111) => (ErrorKind::Invalid, "other nodes lie below this one; delete those first"),
        Code(-125) => (ErrorKind::Unavailable, "the quota of a path is used up; raise it"),
        _ => (ErrorKind::Unexpected, "the server did not accept a request"),
    };
    Error::new(kind, message).caused_by(format_args!("code {}", code.0))
}

/// Sent, and not answered in time.
pub(super) fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "no answer within the request time-out")
}

/// Sent, and the connection ended.
pub(super) fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection broke before the answer came")
}

/// The same, and the request was longer than servers take unless told otherwise.
pub(super) fn too_large() -> Error {
    Error::invalid(
        "the server left at a request of more than 1 MB; store less, or raise its \
                    jute.maxbuffer",
    )
}

/// Nothing was sent.
pub(super) fn away(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}

/// The session is over, and what was on it.
pub(super) fn over() -> Error {
    away("the session is over; what was held on it is lost")
}

/// An answer to something else.
pub(super) fn misfit() -> Error {
    Error::new(ErrorKind::Unexpected, "the server has answered something else")
}
