//! What a failed call means.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status};

use crate::error::{Effect, Error, ErrorKind};

/// Why a call has no answer.
#[derive(Debug)]
pub(in crate::engines::etcd) enum CallFault {
    /// The lease that it names is over.
    LeaseGone,
    /// The token is not good any more.
    Token(Error),
    /// This server cannot say; another one may.
    Elsewhere(Error),
    /// This server has too much to do, and has not begun with it.
    Crowded(Error),
    /// It was refused.
    Refused(Error),
}

/// A session has ended under a request.
pub(in crate::engines::etcd) fn over() -> Error {
    Error::new(ErrorKind::Unavailable, "the etcd lease of this client is over; ask again")
}

impl CallFault {
    /// Not a `From`: with a second one for our error, `?` in closures of others
    /// could not tell which error they mean.
    pub(in crate::engines::etcd) fn into_error(self) -> Error {
        match self {
            Self::LeaseGone => over(),
            Self::Token(error)
            | Self::Elsewhere(error)
            | Self::Crowded(error)
            | Self::Refused(error) => error,
        }
    }

    pub(super) fn of(status: &Status, has_effect: bool) -> Self {
        let said = status.message();
        match status.code() {
            // Whatever the code: servers say it as one they do not know themselves.
            _ if said.contains("too many requests") => Self::Crowded(crowded(said)),
            Code::NotFound if said.contains("lease not found") => Self::LeaseGone,
            Code::Unauthenticated => Self::Token(denied(said)),
            Code::InvalidArgument if asks_for_a_token(said) => Self::Token(denied(said)),
            Code::PermissionDenied => Self::Refused(denied(said)),
            Code::InvalidArgument | Code::FailedPrecondition => Self::Refused(refused(said)),
            Code::ResourceExhausted | Code::OutOfRange => Self::Refused(full(said)),
            Code::Unimplemented => Self::Refused(
                Error::new(ErrorKind::Unsupported, "etcd does not know this request")
                    .caused_by(said),
            ),
            _ => Self::Elsewhere(away(status, has_effect)),
        }
    }

    /// Whether the same request may be sent again.
    pub(super) fn is_repeatable(&self, has_effect: bool) -> bool {
        match self {
            Self::Elsewhere(error) => !has_effect || error.effect() == Effect::NotApplied,
            _ => false,
        }
    }
}

/// An answer that has not come in time.
pub(super) fn late(has_effect: bool) -> CallFault {
    let error = Error::new(
        ErrorKind::Unavailable,
        "etcd did not answer in time; look for a lost leader, or raise ?timeout=",
    );
    CallFault::Elsewhere(if has_effect { error.unknown() } else { error })
}

/// A connection that could not be made.
pub(super) fn unreached(cause: impl std::fmt::Display) -> CallFault {
    let error = Error::new(ErrorKind::Unavailable, "no etcd endpoint can be reached");
    CallFault::Elsewhere(error.caused_by(cause))
}

fn away(status: &Status, has_effect: bool) -> Error {
    let error =
        Error::new(ErrorKind::Unavailable, "etcd cannot serve now").caused_by(reason(status));
    if has_effect && !was_never_sent(status) { error.unknown() } else { error }
}

/// Connecting failed, or the server looked for a leader before anything else.
fn was_never_sent(status: &Status) -> bool {
    status.message() == "etcdserver: no leader"
        || causes(status).any(|cause| cause.is::<ConnectError>())
}

/// The words of the deepest cause: the others only say "transport error".
fn reason(status: &Status) -> String {
    causes(status).last().map_or_else(|| status.message().to_owned(), ToString::to_string)
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}

/// Users were turned on, or their roles changed, since ours was given.
fn asks_for_a_token(said: &str) -> bool {
    said.contains("user name is empty") || said.contains("revision of auth store is old")
}

fn denied(said: &str) -> Error {
    Error::new(
        ErrorKind::Denied,
        "etcd refuses this user; check user:password@ in the URL and the user's roles",
    )
    .caused_by(said)
}

fn refused(said: &str) -> Error {
    if said.contains("request is too large") {
        return Error::invalid(
            "the value is larger than etcd takes; store less, or raise --max-request-bytes",
        );
    }
    if said.contains("authentication failed") {
        return denied(said);
    }
    Error::new(ErrorKind::Unexpected, "etcd refuses the request").caused_by(said)
}

/// Looked for before anything is proposed, as long as much of what was is to be done.
fn crowded(said: &str) -> Error {
    let advice = "etcd has too much to do; ask less of it at once, or give it faster disks";
    Error::new(ErrorKind::Unavailable, advice).caused_by(said)
}

fn full(said: &str) -> Error {
    let advice = if said.contains("space exceeded") {
        "etcd is full; compact, defragment, then disarm its alarm"
    } else {
        "etcd takes no more, or an answer is too large"
    };
    Error::new(ErrorKind::Unavailable, advice).caused_by(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: Code, said: &str, has_effect: bool) -> (ErrorKind, Effect, bool) {
        let fault = CallFault::of(&Status::new(code, said), has_effect);
        let again = fault.is_repeatable(has_effect);
        let error = fault.into_error();
        (error.kind(), error.effect(), again)
    }

    #[test]
    fn what_may_have_had_an_effect_is_unknown_and_not_repeated() {
        use ErrorKind::Unavailable;
        let timed_out = "etcdserver: request timed out";
        assert_eq!(
            outcome(Code::Unavailable, timed_out, true),
            (Unavailable, Effect::Unknown, false)
        );
        assert_eq!(
            outcome(Code::Unavailable, timed_out, false),
            (Unavailable, Effect::NotApplied, true)
        );
        let no_leader = "etcdserver: no leader";
        assert_eq!(
            outcome(Code::Unavailable, no_leader, true),
            (Unavailable, Effect::NotApplied, true)
        );
    }

    #[test]
    fn a_server_with_too_much_to_do_has_not_begun() {
        let said = "etcdserver: too many requests";
        for code in [Code::Unknown, Code::ResourceExhausted] {
            let fault = CallFault::of(&Status::new(code, said), true);
            assert!(matches!(fault, CallFault::Crowded(_)), "{fault:?}");
            assert_eq!(fault.into_error().effect(), Effect::NotApplied);
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        let kind = |code, said| outcome(code, said, true).0;
        let gone = Status::new(Code::NotFound, "etcdserver: requested lease not found");
        assert!(matches!(CallFault::of(&gone, true), CallFault::LeaseGone));
        let old = Status::new(Code::Unauthenticated, "etcdserver: invalid auth token");
        assert!(matches!(CallFault::of(&old, true), CallFault::Token(_)));
        assert_eq!(kind(Code::PermissionDenied, "no"), ErrorKind::Denied);
        assert_eq!(
            kind(Code::InvalidArgument, "etcdserver: user name is empty"),
            ErrorKind::Denied
        );
        let large = "etcdserver: request is too large";
        assert_eq!(kind(Code::InvalidArgument, large), ErrorKind::Invalid);
        let space =
            outcome(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", true);
        assert_eq!(space, (ErrorKind::Unavailable, Effect::NotApplied, false));
    }
}
