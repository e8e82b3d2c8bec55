//! How a cache is made.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::entry::CacheEntry;
use super::follower::{Follower, ReadEntry};
use super::handle::Cache;
use super::life::CacheLife;
use super::shared::SharedView;
use super::view::{CacheBounds, CacheView};
use crate::claim::RawRecord;
use crate::core::shut_down;
use crate::engine::Scope;
use crate::error::Result;
use crate::locks::Locks;
use crate::name::Name;
use crate::recipes::versioned::decode;

/// What a cache may hold unless set.
const RECORDS: usize = 100_000;
const BYTES: usize = 64 * 1024 * 1024;

/// A cache to be; see [`Locks::cache`].
#[must_use = "a cache begins with `start`"]
pub struct CacheBuilder<T> {
    locks: Locks,
    path: Arc<str>,
    depth: usize,
    with_root: bool,
    bounds: CacheBounds,
    read: ReadEntry<T>,
}

/// In place of the values of a cache that has names and versions alone; see
/// [`CacheBuilder::keys_only`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyOnly;

impl<T> fmt::Debug for CacheBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheBuilder").field(&self.path).finish()
    }
}

impl Locks {
    /// A cache of the records below `path`, or of the one at it
    /// ([`depth(0)`](CacheBuilder::depth)); needs the cargo feature `records`. `""` is
    /// above all. Of several engines that names are routed to, it has the one that the
    /// path is routed to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::Locks::memory();
    /// locks.record("config/pool").set(&8).await?;
    /// let config = locks.cache::<u32>("config").start().await?;
    /// let pool = config.get("config/pool")?.map_or(4, |found| *found.value);
    /// assert_eq!(pool, 8);
    /// # Ok(()) }
    /// ```
    pub fn cache<T: DeserializeOwned>(&self, path: impl AsRef<str>) -> CacheBuilder<T> {
        let bounds = CacheBounds { records: RECORDS, bytes: BYTES };
        let (locks, path) = (self.clone(), path.as_ref().into());
        CacheBuilder { locks, path, depth: 1, with_root: false, bounds, read: read::<T> }
    }
}

impl<T> CacheBuilder<T> {
    /// How many segments below the path: 1 unless set; `usize::MAX` for all, 0 for the
    /// record at the path itself.
    pub const fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// The record at the path as well.
    pub const fn with_root(mut self) -> Self {
        self.with_root = true;
        self
    }

    /// At most this many records: 100,000 unless set. Where there are more, `start`
    /// fails. When there come to be more, the cache is
    /// [`TooLarge`](crate::cache::StaleReason::TooLarge) until they fit again.
    pub const fn limit(mut self, records: usize) -> Self {
        self.bounds.records = records;
        self
    }

    /// At most so many bytes of names and values, as they are stored: 64 MiB unless
    /// set. The same holds as for [`limit`](Self::limit).
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// Names and versions alone: values take no room, whatever they are.
    pub fn keys_only(self) -> CacheBuilder<KeyOnly> {
        let Self { locks, path, depth, with_root, bounds, .. } = self;
        CacheBuilder { locks, path, depth, with_root, bounds, read: read_name }
    }

    /// What it watches and lists, and where.
    fn scopes(&self) -> Result<(Locks, Vec<Scope>)> {
        let root = self.path.strip_suffix('/').unwrap_or(&self.path);
        let below = if self.depth == 0 { root.into() } else { format!("{root}/") };
        let below = if root.is_empty() { String::new() } else { below };
        let locks = self.locks.routed(&below).clone();
        let mut scopes = Vec::new();
        if self.depth == 0 || self.with_root {
            scopes.push(Scope::name(&locks.name(root)?));
        }
        if self.depth > 0 {
            scopes.push(Scope::below(locks.own_namespace(), &self.path, self.depth));
        }
        Ok((locks, scopes))
    }
}

impl<T: Send + Sync + 'static> CacheBuilder<T> {
    /// Begins to follow the store; returns once all records are there.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad name, or if there is more than the cache may hold;
    /// `Unsupported` if the engine keeps no records; the engine's error if it cannot
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// Of a dropped call nothing is left.
    pub async fn start(self) -> Result<Cache<T>> {
        let (locks, scopes) = self.scopes()?;
        locks.record_store()?;
        let (alive, gone) = oneshot::channel();
        let (tell, started) = oneshot::channel();
        let shared = SharedView::new(CacheView::new(self.bounds), locks.clock().clone());
        let shared = Arc::new(shared);
        let follower = Follower::new(locks.core(), scopes, Arc::clone(&shared), self.read);
        let begun = locks.at_home(|| {
            locks.spawn(follower.follow(gone, tell));
            Box::pin(async { started.await.unwrap_or_else(|_| Err(shut_down())) })
        });
        // Before it is waited for: whoever gives up ends the task.
        let life = CacheLife { shared, _alive: alive, _locks: locks.clone() };
        begun.await.map_err(|error| error.with("cache", &self.path))?;
        Ok(Cache::new(Arc::new(life)))
    }
}

fn read<T: DeserializeOwned>(name: &Name, record: &RawRecord) -> CacheEntry<T> {
    let weight = name.as_str().len() + record.value.len();
    let value = decode(name, record).map(|found| Arc::new(found.value));
    CacheEntry::new(record.version, weight, value)
}

fn read_name(name: &Name, record: &RawRecord) -> CacheEntry<KeyOnly> {
    static ONE: LazyLock<Arc<KeyOnly>> = LazyLock::new(|| Arc::new(KeyOnly));
    CacheEntry::new(record.version, name.as_str().len(), Ok(Arc::clone(&ONE)))
}
