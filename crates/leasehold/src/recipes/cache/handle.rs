//! The handle on a cache.

use std::fmt;
use std::sync::Arc;

use super::event::StaleReason;
use super::life::CacheLife;
use super::listener::CacheEvents;
use super::snapshot::Snapshot;
use crate::clock::Moment;
use crate::error::Result;
use crate::recipes::versioned::Versioned;

/// Records of a path, kept in this process as the store has them.
///
/// To read from it is no request. It follows the store by a watch: a change is
/// here as soon as the store has told it. When it may have missed some, it says so
/// ([`CacheFreshness::Stale`]), keeps what it has, reads all again, and tells what
/// has changed.
///
/// What is promised:
///
/// 1. At each quiet moment, and while it is live, it has what the store has.
/// 2. No version of a record is followed by an older one, unless the store itself
///    has lost writes.
/// 3. Whoever takes in all its events has what it has.
/// 4. `Synced` follows each `Stale`, until the locks are shut down.
///
/// It ends with the last handle and the last listener. Many caches of the same path
/// in one client share one watch at the engine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// locks.record("price/apple").set(&3).await?;
/// let prices = locks.cache::<u32>("price").depth(1).limit(10_000).start().await?;
///
/// let apple = prices.get("price/apple")?.expect("it was stored before");
/// assert_eq!(*apple.value, 3);
/// assert!(prices.freshness().is_live());
/// # Ok(()) }
/// ```
pub struct Cache<T>(Arc<CacheLife<T>>);

/// Whether a cache follows the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheFreshness {
    /// It has all that the store has told.
    Live,
    /// It may lack changes.
    Stale {
        /// Since when, on the clock of the locks.
        since: Moment,
        /// Why.
        reason: StaleReason,
    },
}

impl CacheFreshness {
    /// Whether it is [`Live`](Self::Live).
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self, Self::Live)
    }
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, freshness) = (self.len(), self.freshness());
        f.debug_struct("Cache").field("len", &len).field("freshness", &freshness).finish()
    }
}

impl<T> Cache<T> {
    pub(super) const fn new(life: Arc<CacheLife<T>>) -> Self {
        Self(life)
    }

    /// The value of a record and its version, if the cache has it.
    ///
    /// # Errors
    ///
    /// `Unexpected` if what is stored is not a `T`.
    pub fn get(&self, name: impl AsRef<str>) -> Result<Option<Versioned<Arc<T>>>> {
        self.0.shared.get(name.as_ref()).map(|entry| entry.versioned()).transpose()
    }

    /// All that it has now, as it will stay.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<T> {
        self.0.shared.snapshot()
    }

    /// How many records it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.shared.look(|view| view.len())
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it follows the store, or since when it does not, and why.
    #[must_use]
    pub fn freshness(&self) -> CacheFreshness {
        self.0
            .shared
            .stale()
            .map_or(CacheFreshness::Live, |(reason, since)| CacheFreshness::Stale { since, reason })
    }

    /// What it tells: first what there is, then each change.
    #[must_use]
    pub fn events(&self) -> CacheEvents<T> {
        CacheEvents::new(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests;
