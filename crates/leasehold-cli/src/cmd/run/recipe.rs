//! What is asked for: a mutex, a read-write lock, permits, or many mutexes.

use std::time::Duration;

use leasehold::{All, Locks, Mutex, Result, RwLock, Semaphore};

use super::tenure::Tenure;
use crate::args::{Permits, Run};

/// The library's recipe for a `run`, with its options.
pub(crate) enum Recipe {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
    All(All),
}

/// All recipes have the same options, but no type in common.
macro_rules! with_options {
    ($recipe:expr, $args:expr, $label:expr) => {{
        let (args, mut recipe) = ($args, $recipe.ttl($args.ttl).label($label));
        if let Some(most) = args.longest_lease() {
            recipe = recipe.max_hold(most);
        }
        if args.fair {
            recipe = recipe.fair();
        }
        if let Some(meta) = &args.meta {
            recipe = recipe.meta(meta.as_str());
        }
        let least = args.hold_at_least.unwrap_or_default();
        recipe.hold_at_least(least).lock_delay(args.lock_delay.unwrap_or_default())
    }};
}

impl Recipe {
    pub(crate) fn new(locks: &Locks, args: &Run, label: &str) -> Self {
        let name = &args.names[0];
        let rwlock = || with_options!(locks.rwlock(name), args, label);
        match args.permits {
            Some(Permits { take, of }) => {
                Self::Permits(with_options!(locks.semaphore(name, of), args, label), take)
            }
            None if args.shared => Self::Read(rwlock()),
            None if args.exclusive => Self::Write(rwlock()),
            None if args.names.len() > 1 => {
                Self::All(with_options!(locks.all(&args.names), args, label))
            }
            None => Self::Mutex(with_options!(locks.mutex(name), args, label)),
        }
    }

    /// Takes it if it is free.
    pub(crate) async fn try_lock(&self) -> Result<Option<Tenure>> {
        let got = match self {
            Self::Mutex(mutex) => mutex.try_lock().await,
            Self::Read(rwlock) => rwlock.try_read().await,
            Self::Write(rwlock) => rwlock.try_write().await,
            Self::Permits(semaphore, take) => semaphore.try_acquire(*take).await,
            Self::All(all) => return Ok(all.try_lock().await?.map(Tenure::All)),
        };
        Ok(got?.map(Tenure::One))
    }

    /// Waits for it, `limit` at most.
    pub(crate) async fn lock(&self, limit: Option<Duration>) -> Result<Tenure> {
        let lock = match self {
            Self::Mutex(mutex) => mutex.lock(),
            Self::Read(rwlock) => rwlock.read(),
            Self::Write(rwlock) => rwlock.write(),
            Self::Permits(semaphore, take) => semaphore.acquire(*take),
            Self::All(all) => return lock_all(all, limit).await,
        };
        let lock = if let Some(limit) = limit { lock.within(limit) } else { lock };
        lock.await.map(Tenure::One)
    }
}

async fn lock_all(all: &All, limit: Option<Duration>) -> Result<Tenure> {
    let lock = all.lock();
    let lock = if let Some(limit) = limit { lock.within(limit) } else { lock };
    lock.await.map(Tenure::All)
}
