//! Modes: the kinds of locks, and who may have a name together.

use std::fmt;

use crate::error::{Error, Result};

/// How a name is taken. Kinds do not mix: while a name is held or waited for
/// as one kind, claims of another kind are an error, never a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Mode {
    /// One holder: a mutex.
    Exclusive,
    /// Any number of readers, no writer.
    Read,
    /// One writer, no readers.
    Write,
    /// `take` of `of` permits: a semaphore.
    Permits {
        /// How many this claim takes.
        take: u32,
        /// How many there are, for every claim on the name.
        of: u32,
    },
}

impl Mode {
    /// Whether two claims belong to one kind of lock.
    #[must_use]
    pub const fn same_kind(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exclusive, Self::Exclusive) => true,
            (Self::Read | Self::Write, Self::Read | Self::Write) => true,
            (Self::Permits { of: a, .. }, Self::Permits { of: b, .. }) => a == b,
            _ => false,
        }
    }

    /// Whether a holder in this mode may take the name in `other` as well.
    /// Permits are counted, so taking them twice takes more.
    pub(crate) const fn covers(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Exclusive, Self::Exclusive)
                | (Self::Write, Self::Write | Self::Read)
                | (Self::Read, Self::Read)
        )
    }

    /// Whether a lease in this mode may become one in `to`.
    pub(crate) fn check_conversion(self, to: Self) -> Result<()> {
        match (self, to) {
            (Self::Write, Self::Read) => Ok(()),
            _ => Err(Error::invalid(format!(
                "a {self} lease cannot be converted to {to}: only write to read, \
                 because two readers that both want to write would wait for each other"
            ))),
        }
    }

    /// Whether a claim can ever be granted.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Permits { take, of } if take == 0 || take > of => Err(Error::invalid(format!(
                "cannot take {take} of {of} permits: take at least 1 and at most {of}"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Permits { take, of } => write!(f, "permits {take}/{of}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_mix() {
        let permits = |take, of| Mode::Permits { take, of };
        assert!(Mode::Read.same_kind(Mode::Write));
        assert!(permits(1, 5).same_kind(permits(2, 5)));
        assert!(!permits(1, 5).same_kind(permits(1, 6)));
        assert!(!Mode::Exclusive.same_kind(Mode::Write));
        assert!(permits(0, 5).check().is_err() && permits(6, 5).check().is_err());
    }
}
