//! The optimistic half: versioned values beside the leases.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use super::BoxFuture;
use crate::claim::LeaseId;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// A value with its version. Versions of one name are never reused, not even
/// after it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The value.
    pub value: Vec<u8>,
    /// Which writing of the name this is.
    pub version: u64,
}

impl Record {
    /// A value in this version.
    #[must_use]
    pub const fn new(value: Vec<u8>, version: u64) -> Self {
        Self { value, version }
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

/// A write of one record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Store {
    /// Under which name.
    pub name: Name,
    /// What must be there before.
    pub expect: Expect,
    /// The new value, or `None` to delete.
    pub value: Option<Vec<u8>>,
    /// How long the value stays.
    pub ttl: Option<Duration>,
    /// A held lease; the value goes when the lease does.
    pub bound_to: Option<LeaseId>,
}

/// A change of a watched record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RecordEvent {
    /// It has a new value.
    Stored(Name, Record),
    /// It was deleted or its time was up.
    Deleted(Name),
    /// Changes may have been missed: load again.
    Resync,
}

/// Changes of watched records, in order.
pub trait RecordEvents: Debug + Send {
    /// The next change; `None` once the engine is closed.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<RecordEvent>> + Send + '_>>;
}

/// Versioned values under names, for optimistic updates and for what recipes
/// have to remember.
pub trait Records: Debug + Send + Sync {
    /// The value and version of one name.
    fn load(&self, name: Name) -> BoxFuture<Result<Option<Record>>>;

    /// Writes if the expectation holds: `Ok(Ok(version))`, or `Ok(Err(found))`
    /// with what is there instead.
    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<Record>>>>;

    /// Adds to a number and returns the new maximum; a missing one is zero.
    fn add(&self, name: Name, amount: u64) -> BoxFuture<Result<u64>>;

    /// All records below a prefix, at most `depth` slashes deep.
    fn list(
        &self,
        namespace: Namespace,
        prefix: String,
        depth: usize,
    ) -> BoxFuture<Result<Vec<(Name, Record)>>>;

    /// Changes below a prefix, at most `depth` slashes deep, from now on.
    fn watch(
        &self,
        namespace: Namespace,
        prefix: String,
        depth: usize,
    ) -> BoxFuture<Result<Box<dyn RecordEvents>>>;
}
