//! All that a cache had at one moment.

use std::fmt;

use super::chunks::Chunks;
use super::entry::CacheEntry;
use crate::name::Name;

/// All that a cache had at one moment. It does not change, and costs little: it
/// shares with the cache what has not changed since.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// locks.record("price/apple").set(&3).await?;
/// let prices = locks.cache::<u32>("price").start().await?;
///
/// let snapshot = prices.snapshot();
/// for (name, entry) in snapshot.iter() {
///     println!("{name}: {}", entry.value()?);
/// }
/// assert_eq!(snapshot.len(), 1);
/// # Ok(()) }
/// ```
pub struct Snapshot<T>(Chunks<CacheEntry<T>>);

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Snapshot<T> {
    pub(super) const fn new(entries: Chunks<CacheEntry<T>>) -> Self {
        Self(entries)
    }

    /// The record of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CacheEntry<T>> {
        self.0.get(name)
    }

    /// All records, by name in byte order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &CacheEntry<T>)> {
        self.0.after(None)
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
