//! How the command fails: a code for scripts and one line for people.

use std::process::ExitCode;

use leasehold::{Error, ErrorKind};

use crate::output;

/// `evict` found nothing to evict, `observe --once` nobody who leads; `latch set`
/// found a latch that is set.
pub(crate) const NOTHING: u8 = 1;
/// `doctor` found something that should be changed.
pub(crate) const WARNING: u8 = 1;
/// The command line, or the configuration it names, can never work.
pub(crate) const USAGE: u8 = 2;
/// `doctor` found that locks are not safe.
pub(crate) const DANGER: u8 = 3;
/// `EX_UNAVAILABLE`: the engine cannot be reached.
pub(crate) const UNAVAILABLE: u8 = 69;
/// `EX_SOFTWARE`: a bug, here or in the engine, or a damaged store.
pub(crate) const INTERNAL: u8 = 70;
/// `EX_IOERR`: the output cannot be written.
pub(crate) const OUTPUT: u8 = 74;
/// `EX_TEMPFAIL`: someone else has the lock.
pub(crate) const BUSY: u8 = 75;
/// The lease was lost, or ran too long, and the command was stopped.
pub(crate) const LOST: u8 = 76;
/// `EX_NOPERM`: the engine refuses this user.
pub(crate) const DENIED: u8 = 77;
/// It was begun or done before, and what came of it is not known.
pub(crate) const UNSURE: u8 = 78;
/// The command is there but cannot be run, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command is not there, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// An end with an exit code other than the command's own.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// An end that needs no words: a signal asked for it.
    pub(crate) const fn silent(code: u8) -> Self {
        Self { code, message: String::new() }
    }

    /// The same, with a word on where it happened.
    pub(crate) fn at(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            output::tell(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, advice) = match error.kind() {
            ErrorKind::TimedOut => (BUSY, ""),
            ErrorKind::Lost => (LOST, ""),
            ErrorKind::Invalid | ErrorKind::Unsupported => (USAGE, ""),
            ErrorKind::Unavailable => (UNAVAILABLE, "; check --engine, or try again later"),
            ErrorKind::Denied => (DENIED, "; check the user and password in LEASEHOLD_ENGINE"),
            _ => (INTERNAL, ""),
        };
        Self::new(code, format!("{error}{advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        let code = |kind| Failure::from(Error::new(kind, "no")).code;
        assert_eq!(code(ErrorKind::Unavailable), UNAVAILABLE);
        assert_eq!(code(ErrorKind::Denied), DENIED);
        assert_eq!(code(ErrorKind::TimedOut), BUSY);
        assert_eq!(code(ErrorKind::Lost), LOST);
        assert_eq!(code(ErrorKind::Invalid), USAGE);
        assert_eq!(code(ErrorKind::Unexpected), INTERNAL);
    }

    #[test]
    fn an_error_says_what_to_do_next() {
        let failure = Failure::from(Error::new(ErrorKind::Unavailable, "no answer"));
        assert_eq!(failure.message, "no answer; check --engine, or try again later");
    }
}
