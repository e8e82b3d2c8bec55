//! Caches, for threads.

use serde::de::DeserializeOwned;

use super::call::block_on;
use crate::error::Result;
use crate::recipes::cache::{Cache, CacheBuilder, CacheEvent, CacheEvents};

impl super::Locks {
    /// A cache of the records below `path`; see [`crate::Locks::cache`].
    ///
    /// ```
    /// # use leasehold::blocking::Locks;
    /// # let locks = Locks::memory();
    /// let prices = locks.cache::<u32>("price").blocking_start()?;
    /// assert!(prices.get("price/apple")?.is_none());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn cache<T: DeserializeOwned>(&self, path: impl AsRef<str>) -> CacheBuilder<T> {
        self.as_async().cache(path)
    }
}

impl<T: Send + Sync + 'static> CacheBuilder<T> {
    /// Like `start`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`CacheBuilder::start`]; `Invalid` inside an async runtime.
    pub fn blocking_start(self) -> Result<Cache<T>> {
        block_on(self.start())
    }
}

impl<T: Send + Sync> CacheEvents<T> {
    /// Like `next`, for threads.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    pub fn blocking_next(&mut self) -> Result<Option<CacheEvent<T>>> {
        block_on(async { Ok(self.next().await) })
    }
}
