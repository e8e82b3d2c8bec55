//! The engines that the suite can test.

use leasehold::Profile;

use super::check::{Outcome, runtime};
use super::store::Store;
use crate::narrow;

/// An engine, and how to make a fresh store of it.
#[derive(Clone, Copy, Debug)]
pub struct EngineUnderTest {
    name: &'static str,
    store: fn() -> Outcome<Store>,
}

impl EngineUnderTest {
    /// Every engine that exists.
    pub const ALL: [Self; 11] = [
        Self { name: "memory", store: Store::memory },
        Self { name: "quorum", store: Store::quorum },
        Self { name: "quorum-redlock3", store: || Store::redlock(3) },
        Self { name: "quorum-redlock5", store: || Store::redlock(5) },
        Self { name: "redis", store: || Store::redis("") },
        Self { name: "redis-spin", store: || Store::redis("wake=spin") },
        Self { name: "redis-string", store: || Store::redis("layout=string&key=lock:{name}") },
        Self { name: "redis-redisson", store: || Store::redis("layout=redisson") },
        Self {
            name: "redis-redisson-fair",
            store: || Store::redis("layout=redisson&kind=fair&fair_wait=3s"),
        },
        Self {
            name: "redis-redisson-fenced",
            store: || Store::redis("layout=redisson&kind=fenced"),
        },
        Self { name: "sqlite", store: Store::sqlite },
    ];

    /// Its word: URL scheme, feature and doc page.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// A store that nobody else uses.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn store(&self) -> Outcome<Store> {
        (self.store)()
    }

    /// What it promises, once opened.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn profile(&self) -> Outcome<Profile> {
        let store = self.store()?;
        let locks = runtime()?.block_on(store.open())?;
        Ok(locks.profile().clone())
    }

    /// The engines of this run: those named in `LEASEHOLD_TEST_ENGINES`, or all.
    ///
    /// # Errors
    ///
    /// When a name is not that of an engine; lists those that are.
    pub fn chosen() -> Result<Vec<Self>, String> {
        match narrow::chosen() {
            None => Ok(Self::ALL.to_vec()),
            Some(names) => names
                .iter()
                .map(|name| Self::named(name))
                .collect::<Result<Vec<_>, _>>()
                .map(|found| found.concat()),
        }
    }

    /// The engine of this name, or all of its forms: `redis` is also
    /// `redis-spin`.
    fn named(name: &str) -> Result<Vec<Self>, String> {
        let form = format!("{name}-");
        let is_meant = |engine: &Self| engine.name == name || engine.name.starts_with(&form);
        let found: Vec<_> = Self::ALL.into_iter().filter(is_meant).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let valid = Self::ALL.map(|engine| engine.name).join(", ");
        Err(format!("{}: there is no engine {name:?}; valid: {valid}", narrow::VARIABLE))
    }
}
