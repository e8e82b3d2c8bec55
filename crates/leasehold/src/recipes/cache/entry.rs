//! A record as a cache has it.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::recipes::versioned::Versioned;

/// A record as a cache has it. A copy shares the value.
pub struct CacheEntry<T> {
    version: u64,
    /// How many bytes it counts as, with its name.
    weight: usize,
    value: Result<Arc<T>>,
}

impl<T> Clone for CacheEntry<T> {
    fn clone(&self) -> Self {
        Self { version: self.version, weight: self.weight, value: self.value.clone() }
    }
}

impl<T> fmt::Debug for CacheEntry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheEntry").field("version", &self.version).finish_non_exhaustive()
    }
}

impl<T> PartialEq for CacheEntry<T> {
    /// The same writing of a record. What was written under a version stays as it
    /// is, so values need not be compared.
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl<T> CacheEntry<T> {
    pub(super) const fn new(version: u64, weight: usize, value: Result<Arc<T>>) -> Self {
        Self { version, weight, value }
    }

    /// Which writing of the record it is; see [`Versioned::version`].
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// `Unexpected` if what is stored is not a `T`: the cache goes on, and the next
    /// good value of the record takes its place.
    pub fn value(&self) -> Result<Arc<T>> {
        self.value.clone()
    }

    pub(super) fn versioned(&self) -> Result<Versioned<Arc<T>>> {
        Ok(Versioned { value: self.value()?, version: self.version })
    }

    pub(super) const fn weight(&self) -> usize {
        self.weight
    }
}
