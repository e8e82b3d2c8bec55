//! A record: a versioned value under a name.

use std::fmt;
use std::time::Duration;

use super::{SPAN_MAX, Ticket};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::name::Name;

/// The largest value in bytes: 1 MiB. Records coordinate; they are no place
/// for files.
pub const VALUE_MAX: usize = 1024 * 1024;

/// A value with its version. Versions of one namespace are drawn from one
/// counter and never reused, not even after the record was deleted.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawRecord {
    /// The value.
    pub value: Vec<u8>,
    /// Which writing of the name this is.
    pub version: u64,
}

impl RawRecord {
    /// A value in this version.
    #[must_use]
    pub const fn new(value: Vec<u8>, version: u64) -> Self {
        Self { value, version }
    }
}

impl fmt::Debug for RawRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawRecord(version {}, {} bytes)", self.version, self.value.len())
    }
}

/// What must be there for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// This version.
    Version(u64),
    /// Anything or nothing.
    Any,
}

impl Expect {
    /// Whether what was found is what was expected.
    #[must_use]
    pub fn holds(self, found: Option<&RawRecord>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Version(version) => found.is_some_and(|record| record.version == version),
        }
    }
}

/// A write of one record.
#[derive(Clone)]
#[non_exhaustive]
pub struct Store {
    /// Under which name.
    pub name: Name,
    /// What must be there before.
    pub expect: Expect,
    /// The new value, or `None` to delete.
    pub value: Option<Vec<u8>>,
    /// How long the new value stays; for ever if it is not set. A new value
    /// does not inherit the time of the one before.
    pub ttl: Option<Duration>,
    /// A held lease: the new value goes when the lease ends, by release,
    /// expiry, eviction or the death of its holder.
    pub bound_to: Option<Ticket>,
    /// It is only ever looked up by its name: an engine may leave it out of
    /// lists, and tell no watcher of it. Only for values that have a `ttl`.
    pub unlisted: bool,
    /// Somebody acts on it who may not act twice: an engine that does not wait
    /// for its disk waits for this one.
    pub lasting: bool,
}

impl Store {
    /// Writes `value`, whatever is there.
    #[must_use]
    pub const fn put(name: Name, value: Vec<u8>) -> Self {
        Self::new(name, Some(value))
    }

    /// Deletes whatever is there.
    #[must_use]
    pub const fn delete(name: Name) -> Self {
        Self::new(name, None)
    }

    const fn new(name: Name, value: Option<Vec<u8>>) -> Self {
        let (expect, ttl, bound_to) = (Expect::Any, None, None);
        Self { name, expect, value, ttl, bound_to, unlisted: false, lasting: false }
    }

    /// The same write, which has to outlive the power of the engine's machine.
    #[must_use]
    pub const fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// The same write, if this is what is there.
    #[must_use]
    pub const fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Whether an engine may leave it out of its lists.
    #[must_use]
    pub const fn is_unlisted(&self) -> bool {
        self.unlisted && self.value.is_some() && self.ttl.is_some() && self.bound_to.is_none()
    }

    /// Refuses what no engine stores; engines call it first.
    ///
    /// # Errors
    ///
    /// `Invalid` if the value is larger than 1 MiB, or its ttl is zero or longer
    /// than [`SPAN_MAX`](super::SPAN_MAX).
    pub fn check(&self) -> Result<()> {
        let size = self.value.as_ref().map_or(0, Vec::len);
        let error = if size > VALUE_MAX {
            format!("the value has {size} bytes, a record holds at most {VALUE_MAX} (1 MiB)")
        } else if self.ttl.is_some_and(|ttl| ttl.is_zero()) {
            "the ttl of a record is zero: it would be gone at once".into()
        } else if let Some(ttl) =
            self.ttl.filter(|ttl| *ttl > SPAN_MAX && !mutant::lives(Mutant::EndlessSpans))
        {
            format!(
                "the ttl {ttl:?} of a record is too long: at most {SPAN_MAX:?}; \
                 without a ttl it stays for ever"
            )
        } else {
            return Ok(());
        };
        Err(Error::invalid(error).with("record", &self.name))
    }

    /// Refuses what cannot be part of the release of `ticket`.
    pub(crate) fn check_as_ending(&self, ticket: &Ticket) -> Result<()> {
        let error = if self.expect != Expect::Any {
            "a record stored with a release expects nothing: the lease is what protects it"
        } else if self.bound_to.as_ref().is_some_and(|lease| lease.id == ticket.id) {
            "a record bound to the lease that is released would be gone at once"
        } else {
            return self.check();
        };
        Err(Error::invalid(error).with("record", &self.name))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.value.as_ref().map(Vec::len);
        let mut shown = f.debug_struct("Store");
        shown.field("name", &self.name).field("expect", &self.expect).field("size", &size);
        shown.field("ttl", &self.ttl).field("bound", &self.bound_to.is_some()).finish()
    }
}
