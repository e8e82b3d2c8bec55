//! What a driver's error means to a caller.

use redis::{ErrorKind as Cause, RedisError, ServerErrorKind};

use crate::error::{Error, ErrorKind};

/// The server does not know the script's digest; nothing was done.
pub(super) fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == Cause::Server(ServerErrorKind::NoScript)
}

/// As an error of ours. Secrets are in none of the driver's texts.
pub(super) fn error(cause: RedisError) -> Error {
    let kind = match cause.kind() {
        Cause::AuthenticationFailed => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    let error = Error::new(kind, "the server did not do it").caused_by(&cause);
    if cause.is_timeout() || cause.is_io_error() { error.unknown() } else { error }
}
