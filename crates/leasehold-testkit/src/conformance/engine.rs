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
    pub const ALL: [Self; 7] = [
        Self { name: "memory", store: Store::memory },
        Self { name: "sqlite", store: Store::sqlite },
        Self { name: "redis_string", store: || Store::redis("layout=string&key=lock:{name}") },
        Self { name: "redisson", store: || Store::redis("layout=redisson") },
        Self {
            name: "redisson_fair",
            store: || Store::redis("layout=redisson&kind=fair&fair_wait=3s"),
        },
        Self { name: "redisson_fenced", store: || Store::redis("layout=redisson&kind=fenced") },
        Self { name: "redisson_spin", store: || Store::redis("layout=redisson&kind=spin") },
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
            Some(names) => names.iter().map(|name| Self::find(name)).collect(),
        }
    }

    fn find(name: &str) -> Result<Self, String> {
        let valid = Self::ALL.map(|engine| engine.name).join(", ");
        let found = Self::ALL.into_iter().find(|engine| engine.name == name);
        found.ok_or_else(|| {
            format!("{}: there is no engine {name:?}; valid: {valid}", narrow::VARIABLE)
        })
    }
}
