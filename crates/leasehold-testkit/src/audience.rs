//! One who listens to a cache, and holds it to what it promises.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::Locks;
use leasehold::cache::{Cache, CacheEvent, CacheEvents, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Versions by name.
pub type Versions = BTreeMap<String, u64>;

/// One who listens to a cache.
///
/// V2: no version of a record is followed by an older one. V3: all events come to
/// what the cache has. V4: `Synced` follows each `Stale`.
#[derive(Debug)]
pub struct Audience<T> {
    cache: Cache<T>,
    events: CacheEvents<T>,
    told: Versions,
    highest: Versions,
    live: bool,
    /// How often it was told that changes may be missing.
    pub stale: usize,
    /// How often it began anew.
    pub snapshots: usize,
}

fn versions<T>(snapshot: &Snapshot<T>) -> Versions {
    snapshot.iter().map(|(name, entry)| (name.as_str().to_owned(), entry.version())).collect()
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Audience<T> {
    /// Begins to listen.
    #[must_use]
    pub fn of(cache: &Cache<T>) -> Self {
        let (cache, events) = (cache.clone(), cache.events());
        let (told, highest) = (Versions::new(), Versions::new());
        Self { cache, events, told, highest, live: false, stale: 0, snapshots: 0 }
    }

    /// What the cache has.
    #[must_use]
    pub fn seen(&self) -> Versions {
        versions(&self.cache.snapshot())
    }

    /// Takes in the next event; false at the end.
    ///
    /// # Panics
    ///
    /// If it breaks a promise, or none comes in time.
    pub async fn hear(&mut self, patience: Duration) -> bool {
        let event = timeout(patience, self.events.next()).await;
        let Some(event) = event.unwrap_or_else(|_| {
            panic!("nothing is told, with {:?} at {:?}", self.cache, self.told)
        }) else {
            return false;
        };
        match event {
            CacheEvent::Snapshot(all) => {
                (self.told, self.snapshots) = (versions(&all), self.snapshots + 1);
                self.told
                    .iter()
                    .for_each(|(name, version)| rise(&mut self.highest, name, *version));
            }
            CacheEvent::Added { name, new } => self.hear_of(name.as_str(), None, new.version()),
            CacheEvent::Changed { name, old, new } => {
                self.hear_of(name.as_str(), Some(old.version()), new.version());
            }
            CacheEvent::Removed { name, old } => {
                assert_eq!(self.told.remove(name.as_str()), Some(old.version()), "V3: {name}");
            }
            CacheEvent::Synced => self.live = true,
            CacheEvent::Stale(_) => (self.live, self.stale) = (false, self.stale + 1),
            other => panic!("{other:?}"),
        }
        true
    }

    fn hear_of(&mut self, name: &str, old: Option<u64>, new: u64) {
        assert_eq!(self.told.insert(name.to_owned(), new), old, "V3: {name}");
        rise(&mut self.highest, name, new);
    }

    /// V1: listens until it was told what the store has, and the cache is live.
    ///
    /// # Errors
    ///
    /// Those of a list.
    ///
    /// # Panics
    ///
    /// If a promise is broken, or it does not come to that in time.
    pub async fn agrees(
        &mut self,
        locks: &Locks,
        path: &str,
        depth: usize,
        patience: Duration,
    ) -> leasehold::Result<()> {
        let listed = locks.records::<T>(path).list(depth).await?;
        let store: Versions =
            listed.iter().map(|(name, found)| (name.as_str().to_owned(), found.version)).collect();
        while !self.live || self.told != store {
            assert!(self.hear(patience).await, "the locks were shut down");
        }
        assert_eq!(self.seen(), store, "V1");
        for (name, found) in listed {
            let cached = self.cache.get(name.as_str())?.expect("V1");
            let texts = [&found.value, &*cached.value].map(|it| serde_json::to_string(it).ok());
            assert_eq!(texts[0], texts[1], "{name}");
        }
        Ok(())
    }
}

/// V2.
fn rise(highest: &mut Versions, name: &str, version: u64) {
    let before = highest.insert(name.to_owned(), version);
    assert!(
        before.is_none_or(|before| before <= version),
        "V2: {name}: {version} after {before:?}"
    );
}
