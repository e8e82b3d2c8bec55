//! What a cache tells those who listen.

use std::fmt;

use super::entry::CacheEntry;
use super::snapshot::Snapshot;
use crate::name::Name;

/// What a cache tells.
///
/// Whoever takes in all of them, one after the other, has what the cache has: a
/// [`Snapshot`](Self::Snapshot) replaces everything, and the changes that follow
/// change it. A [`Synced`](Self::Synced) follows each [`Stale`](Self::Stale), unless
/// the locks are shut down.
#[non_exhaustive]
pub enum CacheEvent<T> {
    /// All that there is, in place of what was told before: the first event, and
    /// again for a listener that has fallen behind. `Synced` or `Stale` follows.
    Snapshot(Snapshot<T>),
    /// A record that was not there.
    Added {
        /// Its name.
        name: Name,
        /// What it is now.
        new: CacheEntry<T>,
    },
    /// A record has another value.
    Changed {
        /// Its name.
        name: Name,
        /// What it was.
        old: CacheEntry<T>,
        /// What it is now.
        new: CacheEntry<T>,
    },
    /// A record that is not there any more.
    Removed {
        /// Its name.
        name: Name,
        /// What it was.
        old: CacheEntry<T>,
    },
    /// From here on the cache follows the store.
    Synced,
    /// From here on the cache may lack changes. What it has stays readable.
    Stale(StaleReason),
}

/// Why a cache may lack changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StaleReason {
    /// It reads for the first time.
    Starting,
    /// Changes were missed; it reads all again.
    Missed,
    /// The connection to the engine is gone.
    Disconnected,
    /// There is more than it may hold. It has what fits, and looks again now and
    /// then; see [`CacheBuilder::limit`](crate::cache::CacheBuilder::limit).
    TooLarge,
    /// The locks were shut down: it stays as it is.
    Closed,
}

impl<T> Clone for CacheEvent<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Snapshot(all) => Self::Snapshot(all.clone()),
            Self::Added { name, new } => Self::Added { name: name.clone(), new: new.clone() },
            Self::Changed { name, old, new } => {
                Self::Changed { name: name.clone(), old: old.clone(), new: new.clone() }
            }
            Self::Removed { name, old } => Self::Removed { name: name.clone(), old: old.clone() },
            Self::Synced => Self::Synced,
            Self::Stale(reason) => Self::Stale(*reason),
        }
    }
}

impl<T> fmt::Debug for CacheEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(all) => f.debug_tuple("Snapshot").field(all).finish(),
            Self::Added { name, new } => f.debug_tuple("Added").field(name).field(new).finish(),
            Self::Changed { name, old, new } => {
                f.debug_tuple("Changed").field(name).field(old).field(new).finish()
            }
            Self::Removed { name, old } => f.debug_tuple("Removed").field(name).field(old).finish(),
            Self::Synced => f.write_str("Synced"),
            Self::Stale(reason) => f.debug_tuple("Stale").field(reason).finish(),
        }
    }
}

impl<T> CacheEvent<T> {
    /// How many bytes of values it keeps alive, at most.
    pub(super) const fn weight(&self) -> usize {
        match self {
            Self::Added { new, .. } => new.weight(),
            Self::Changed { old, new, .. } => old.weight() + new.weight(),
            Self::Removed { old, .. } => old.weight(),
            Self::Snapshot(_) | Self::Synced | Self::Stale(_) => 0,
        }
    }
}
