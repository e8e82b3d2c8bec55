//! Why a call has no outcome.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::name::Name;

/// Why a call of [`Once::run`](super::Once::run) has no outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work ran, and this is what it said. Whether it may run again is
    /// [`Failure`](super::Failure)'s to say.
    Failed(E),
    /// The work was not run.
    Refused(Refusal),
    /// The work had begun and was dropped in the middle, because its lease was
    /// lost: part of it may be done. What follows is [`OnCrash`](super::OnCrash)'s to
    /// say, and another may be at it already.
    CutOff(Error),
    /// The work ran and came to this outcome, but nothing tells others so:
    /// the lease was lost (`cause` is `Lost`) and another may have run it
    /// too, or the engine could not be reached.
    Unrecorded {
        /// What this run came to.
        outcome: Vec<u8>,
        /// Why it was not recorded.
        cause: Error,
    },
}

/// Why the work was not run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The key was used before, for something else.
    Mismatch,
    /// Someone is at it, and we do not wait, or not any longer. The error says
    /// who.
    Running(Error),
    /// Someone began so long ago and died, and [`OnCrash::Unknown`] was
    /// chosen: nobody knows whether it was done. Look, then say so with
    /// [`Once::settle`] or [`Once::forget`].
    ///
    /// [`OnCrash::Unknown`]: super::OnCrash::Unknown
    /// [`Once::settle`]: super::Once::settle
    /// [`Once::forget`]: super::Once::forget
    Unknown {
        /// How long ago it was begun.
        age: Duration,
    },
    /// It was done, and its outcome is not kept any more.
    Gone {
        /// How long ago it was done.
        age: Duration,
    },
    /// It was done, and its outcome was too large to keep.
    NotKept {
        /// How long ago it was done.
        age: Duration,
    },
    /// It was tried before and failed, and [`Failure::Record`] was chosen.
    ///
    /// [`Failure::Record`]: super::Failure::Record
    FailedBefore {
        /// What the work said.
        message: String,
        /// How long ago.
        age: Duration,
    },
    /// The token is none of ours, or no longer one.
    Token(TokenFault),
    /// The engine's error.
    Engine(Error),
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenFault {
    /// It was not issued with one of our keys, or for another subject.
    Forged,
    /// It was issued for something else.
    OtherScope,
    /// Its time is up, and it was never redeemed.
    Expired,
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forged => "the token was not issued here, or for someone else",
            Self::OtherScope => "the token was issued for something else",
            Self::Expired => "the token has expired; ask for a new one",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch => f.write_str("the key was used before, for something else"),
            Self::Running(error) => write!(f, "the first request is still running: {error}"),
            Self::Unknown { age } => write!(
                f,
                "a run that began {} ago was cut off, and nobody knows whether it was done; \
                 look, then settle or forget the key",
                whole(*age)
            ),
            Self::Gone { age } => {
                write!(f, "it was done {} ago; its outcome is not kept any more", whole(*age))
            }
            Self::NotKept { age } => {
                write!(f, "it was done {} ago; its outcome was too large to keep", whole(*age))
            }
            Self::FailedBefore { message, age } => {
                write!(f, "it failed {} ago: {message}", whole(*age))
            }
            Self::Token(fault) => fault.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

/// For people.
fn whole(age: Duration) -> String {
    format!("{:?}", Duration::from_secs(age.as_secs()))
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::CutOff(error) => write!(f, "the work was cut off: {error}"),
            Self::Unrecorded { cause, .. } => {
                write!(f, "it was done, but its outcome could not be recorded: {cause}")
            }
        }
    }
}

impl std::error::Error for Refusal {}
impl<E: fmt::Debug + fmt::Display> std::error::Error for OnceError<E> {}

impl<E> From<Refusal> for OnceError<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl<E> From<Error> for OnceError<E> {
    fn from(error: Error) -> Self {
        Self::Refused(Refusal::Engine(error))
    }
}

/// Someone else is at the key.
pub(super) fn running(name: &Name) -> Refusal {
    let text = "the key is held by the first request";
    Refusal::Running(Error::new(ErrorKind::TimedOut, text).with("name", name))
}

/// The lease did not last as long as the work.
pub(super) fn late(name: &Name) -> Error {
    let text = "the lease ended before the work did; what it came to was not recorded";
    Error::new(ErrorKind::Lost, text).with("name", name)
}
