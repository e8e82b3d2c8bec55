//! The engines that the suite can test.

use leasehold::Profile;

use super::check::{Check, Outcome, runtime};
use super::recipe::Recipe;
use super::store::Store;
use crate::narrow;

/// What a further deployment of an engine is checked for: what depends on the
/// way to the servers. The rest is the same code and was checked on one server.
const DEPLOYMENT: &[&str] = &[
    "exclusion",
    "waiting",
    "fences",
    "verbs",
    "modes",
    "records",
    "watchers",
    "once",
    "ids",
    "residue",
    "counter",
    "latch",
];

/// What records are checked for where they lie bare, for other software.
const RAW_RECORDS: &[&str] = &["records", "watchers"];

const ADVISORY: &str = "strategy=advisory&timeout=20s";
/// A table that a user might have, and how it is used.
const UNIQUE: &str = "strategy=unique&table=jobs&column=job&token=tok&expires=until&owner=who\
                      &poll=5ms&poll_max=100ms&timeout=20s";
const POSTGRES_TABLE: &str = "CREATE TABLE jobs (job TEXT PRIMARY KEY, tok TEXT, \
                              until TIMESTAMPTZ, who TEXT)";
const MYSQL_TABLE: &str = "CREATE TABLE jobs (job VARBINARY(400) PRIMARY KEY, \
                           tok VARBINARY(40), until DATETIME(6), \
                           who VARCHAR(255) CHARACTER SET utf8mb4)";

/// An engine, and how to make a fresh store of it.
#[derive(Clone, Copy, Debug)]
pub struct EngineUnderTest {
    name: &'static str,
    store: fn() -> Outcome<Store>,
    /// The subjects it is checked for, over the mutex alone; `None` for the
    /// whole suite over every recipe.
    subjects: Option<&'static [&'static str]>,
}

impl EngineUnderTest {
    /// Every engine that exists.
    pub const ALL: [Self; 27] = [
        Self::new("etcd", Store::etcd),
        Self::deployment("etcd-cluster", Store::etcd_cluster),
        Self::raw_records("etcd-raw", Store::etcd_raw_records),
        Self::new("memory", Store::memory),
        Self::new("mysql", Store::mysql),
        Self::new("mysql-advisory", || Store::mysql_with(ADVISORY, "")),
        Self::new("mysql-unique", || Store::mysql_with(UNIQUE, MYSQL_TABLE)),
        Self::new("postgres", Store::postgres),
        Self::new("postgres-advisory", || Store::postgres_with(ADVISORY, "")),
        Self::new("postgres-pgbouncer", Store::pgbouncer),
        Self::new("postgres-unique", || Store::postgres_with(UNIQUE, POSTGRES_TABLE)),
        Self::new("quorum", Store::quorum),
        Self::new("quorum-redlock3", || Store::redlock(3)),
        Self::new("quorum-redlock5", || Store::redlock(5)),
        Self::new("redis", || Store::redis("")),
        Self::new("redis-spin", || Store::redis("wake=spin")),
        Self::new("redis-string", || Store::redis("layout=string&key=lock:{name}")),
        Self::new("redis-redisson", || Store::redis("layout=redisson")),
        Self::new("redis-redisson-fair", || Store::redis("layout=redisson&kind=fair&fair_wait=3s")),
        Self::new("redis-redisson-fenced", || Store::redis("layout=redisson&kind=fenced")),
        Self::deployment("redis-tls", Store::redis_tls),
        Self::deployment("redis-sentinel", Store::redis_sentinel),
        Self::deployment("redis-cluster", Store::redis_cluster),
        Self::new("sqlite", Store::sqlite),
        Self::new("zookeeper", Store::zookeeper),
        Self::deployment("zookeeper-ensemble", Store::zookeeper_ensemble),
        Self::raw_records("zookeeper-raw", Store::zookeeper_raw_records),
    ];

    const fn new(name: &'static str, store: fn() -> Outcome<Store>) -> Self {
        Self { name, store, subjects: None }
    }

    const fn deployment(name: &'static str, store: fn() -> Outcome<Store>) -> Self {
        Self { name, store, subjects: Some(DEPLOYMENT) }
    }

    const fn raw_records(name: &'static str, store: fn() -> Outcome<Store>) -> Self {
        Self { name, store, subjects: Some(RAW_RECORDS) }
    }

    /// Whether this is another way to an engine that is in the list as well.
    #[must_use]
    pub const fn is_deployment(&self) -> bool {
        self.subjects.is_some()
    }

    /// Whether it is given this check, with this recipe in the role of a mutex.
    #[must_use]
    pub fn takes(&self, check: &Check, recipe: Recipe) -> bool {
        self.subjects
            .is_none_or(|subjects| subjects.contains(&check.subject()) && recipe == Recipe::Mutex)
    }

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
