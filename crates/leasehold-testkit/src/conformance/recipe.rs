//! What can stand in for a mutex: the same checks, over every recipe that
//! lets one holder in.

use std::ops::Deref;
use std::time::Duration;

use leasehold::engine::Status;
use leasehold::engine::profile::Grants;
use leasehold::{Guard, Lock, Locks, Mutex, Profile, Result, RwLock, Semaphore};

use super::patience;

/// The label of whoever drains a semaphore; checks do not see it.
pub(super) const DRAINER: &str = "the drainer";
/// The permits of a semaphore that is drained down to the last.
pub(super) const PERMITS: u32 = 3;

/// A recipe in the role of a mutex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recipe {
    /// The mutex itself.
    #[default]
    Mutex,
    /// The writer of a read-write lock.
    Write,
    /// A semaphore of one permit.
    OnePermit,
    /// The last permit of a semaphore: someone else holds the others.
    LastPermit,
}

impl Recipe {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mutex, Self::Write, Self::OnePermit, Self::LastPermit];
    /// Those that nobody else holds a part of.
    pub const WHOLE: [Self; 3] = [Self::Mutex, Self::Write, Self::OnePermit];

    /// Its word in the name of a trial.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Write => "write",
            Self::OnePermit => "one_permit",
            Self::LastPermit => "last_permit",
        }
    }

    /// Whether an engine with this profile has it.
    #[must_use]
    pub fn is_granted_by(self, profile: &Profile) -> bool {
        let needed = match self {
            Self::Mutex => Grants::Exclusive,
            Self::Write => Grants::Shared,
            Self::OnePermit | Self::LastPermit => Grants::Counted,
        };
        profile.grants >= needed
    }

    fn on(self, locks: &Locks, name: &str) -> Lockable {
        match self {
            Self::Mutex => Lockable::Mutex(locks.mutex(name)),
            Self::Write => Lockable::Write(locks.rwlock(name)),
            Self::OnePermit => Lockable::Permit(locks.semaphore(name, 1)),
            Self::LastPermit => Lockable::Permit(locks.semaphore(name, PERMITS)),
        }
    }
}

/// A client of a store, with the recipe that plays the mutex.
#[derive(Clone, Debug)]
pub struct Client {
    locks: Locks,
    recipe: Recipe,
    /// Who keeps the engine open that is below this one's.
    _below: Option<Locks>,
}

impl Client {
    pub(super) const fn new(locks: Locks, recipe: Recipe) -> Self {
        Self { locks, recipe, _below: None }
    }

    /// The same client, which keeps the engine of another one open.
    pub(super) fn over(self, below: Locks) -> Self {
        Self { _below: Some(below), ..self }
    }

    /// What plays the mutex on `name`.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Lockable {
        self.recipe.on(&self.locks, name.as_ref())
    }

    /// The same client, where waiting ends after `limit`.
    #[must_use]
    pub fn wait_limit(&self, limit: Duration) -> Self {
        Self { locks: self.locks.wait_limit(limit), ..self.clone() }
    }

    /// The same client, with names of another namespace.
    ///
    /// # Errors
    ///
    /// When it is no namespace.
    pub fn namespace(&self, namespace: &str) -> Result<Self> {
        Ok(Self { locks: self.locks.namespace(namespace)?, ..self.clone() })
    }

    /// A ttl that is meant to run out.
    #[must_use]
    pub fn short(&self) -> Duration {
        patience::short(self.profile())
    }

    /// A ttl that is meant to be renewed, also on a busy machine.
    #[must_use]
    pub fn brief(&self) -> Duration {
        patience::brief(self.profile())
    }

    /// The library's own handle.
    #[must_use]
    pub fn into_locks(self) -> Locks {
        self.locks
    }
}

impl Deref for Client {
    type Target = Locks;

    fn deref(&self) -> &Locks {
        &self.locks
    }
}

/// A name that one holder at a time can have, whatever recipe sees to it.
#[derive(Clone, Debug)]
pub enum Lockable {
    /// A mutex.
    Mutex(Mutex),
    /// A read-write lock, to be written.
    Write(RwLock),
    /// A semaphore, to be taken one permit of.
    Permit(Semaphore),
}

/// Passes an option on to whatever is below.
macro_rules! options {
    ($($option:ident($($value:ident: $kind:ty)?)),+ $(,)?) => {
        $(
            #[doc = concat!("The option `", stringify!($option), "` of the recipe.")]
            #[must_use]
            pub fn $option(self $(, $value: $kind)?) -> Self {
                match self {
                    Self::Mutex(it) => Self::Mutex(it.$option($($value)?)),
                    Self::Write(it) => Self::Write(it.$option($($value)?)),
                    Self::Permit(it) => Self::Permit(it.$option($($value)?)),
                }
            }
        )+
    };
}

impl Lockable {
    options!(
        ttl(ttl: Duration),
        renew(renew: bool),
        max_hold(most: Duration),
        fair(),
        label(label: &str),
        meta(meta: impl Into<std::sync::Arc<str>>),
        lock_delay(delay: Duration),
        hold_at_least(least: Duration),
    );

    /// Waits until it is ours.
    pub fn lock(&self) -> Lock {
        match self {
            Self::Mutex(it) => it.lock(),
            Self::Write(it) => it.write(),
            Self::Permit(it) => it.acquire(1),
        }
    }

    /// Takes it if it is free.
    ///
    /// # Errors
    ///
    /// Those of the recipe.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        match self {
            Self::Mutex(it) => it.try_lock().await,
            Self::Write(it) => it.try_write().await,
            Self::Permit(it) => it.try_acquire(1).await,
        }
    }

    /// Locks, works, releases.
    ///
    /// # Errors
    ///
    /// Those of the recipe, and `Lost`.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        self.lock().await?.run(work).await
    }

    /// Who holds it and who waits; whoever drained it is not shown.
    ///
    /// # Errors
    ///
    /// Those of the recipe.
    pub async fn status(&self) -> Result<Status> {
        let mut status = match self {
            Self::Mutex(it) => it.status().await?,
            Self::Write(it) => it.status().await?,
            Self::Permit(it) => it.status().await?,
        };
        status.holders.retain(|held| &*held.label != DRAINER);
        Ok(status)
    }
}
