//! What is asked for: a mutex, a read-write lock, permits, many mutexes, or the lead.

use std::time::Duration;

use leasehold::{All, Campaign, Election, Locks, Mutex, Reign, Result, RwLock, Semaphore};

use super::request::{Request, Wanted};
use super::tenure::Tenure;
use crate::args::Permits;

/// The library's recipe for a request, with its options.
pub(crate) enum Recipe {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
    All(All),
    Election(Election, String),
}

/// All recipes have the same options, but no type in common.
macro_rules! with_options {
    ($recipe:expr, $request:expr) => {{
        let job = $request.job;
        let mut recipe = $recipe.ttl(job.ttl).label(&$request.label);
        if let Some(most) = job.longest_lease() {
            recipe = recipe.max_hold(most);
        }
        if job.fair {
            recipe = recipe.fair();
        }
        if let Some(meta) = &job.meta {
            recipe = recipe.meta(meta.as_str());
        }
        let least = job.hold_at_least.unwrap_or_default();
        recipe.hold_at_least(least).lock_delay(job.lock_delay.unwrap_or_default())
    }};
}

impl Recipe {
    pub(crate) fn new(locks: &Locks, request: &Request<'_>) -> Self {
        let (names, name) = (request.names, &request.names[0]);
        let rwlock = || with_options!(locks.rwlock(name), request);
        match request.wanted {
            Wanted::Permits(Permits { take, of }) => {
                Self::Permits(with_options!(locks.semaphore(name, of), request), take)
            }
            Wanted::Shared => Self::Read(rwlock()),
            Wanted::Exclusive => Self::Write(rwlock()),
            Wanted::Mutex if names.len() > 1 => Self::All(with_options!(locks.all(names), request)),
            Wanted::Mutex => Self::Mutex(with_options!(locks.mutex(name), request)),
            Wanted::Lead(value) => {
                Self::Election(with_options!(locks.election(name), request), value.into())
            }
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
            Self::Election(election, value) => return try_lead(election, value).await,
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
            Self::Election(election, value) => {
                return win(election.campaign(value), limit).await.map(Tenure::Reign);
            }
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

async fn win(campaign: Campaign, limit: Option<Duration>) -> Result<Reign> {
    let campaign = if let Some(limit) = limit { campaign.within(limit) } else { campaign };
    campaign.await
}

/// With no time at all a campaign asks once.
async fn try_lead(election: &Election, value: &str) -> Result<Option<Tenure>> {
    match win(election.campaign(value), Some(Duration::ZERO)).await {
        Ok(reign) => Ok(Some(Tenure::Reign(reign))),
        Err(error) if error.is_timed_out() => Ok(None),
        Err(error) => Err(error),
    }
}
