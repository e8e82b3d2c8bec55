//! Waiting for what must come, without a guess how soon.

use std::io::{Write, stderr};
use std::time::Duration;

use leasehold::{Effect, Error, Guard, Profile, Result};
use tokio::time::{Instant, sleep};

use super::check::{Failed, Outcome, ensure};
use super::lateness::Lateness;
use super::recipe::Lockable;

/// How long to wait for what must come. It is a bound, not an expectation.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A ttl that no check can outwait: what comes does not come from an expiry.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// A ttl that is meant to run out.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
/// A ttl that is meant to be renewed, also on a busy machine.
pub(crate) const BRIEF: Duration = Duration::from_millis(900);

/// A ttl that no machine is too slow for.
const LONGEST: Duration = Duration::from_millis(3600);

/// `SHORT`, unless the engine takes no ttl so short.
pub(crate) fn short(profile: &Profile) -> Duration {
    SHORT.max(profile.limits.ttl_min)
}

/// `BRIEF`, unless the engine takes no ttl so brief.
pub(crate) fn brief(profile: &Profile) -> Duration {
    BRIEF.max(profile.limits.ttl_min)
}

/// Goes through a check with leases that are as brief as the machine allows. A loss
/// is excused, and the check goes on with twice the ttl, only if the machine was
/// seen to be late meanwhile: by a good part of the ttl, in a thread that has
/// nothing to do with leases. Every excuse is told; nothing else is excused.
pub(crate) async fn as_brief_as_can_be<F>(
    profile: &Profile,
    check: impl Fn(Duration) -> F,
) -> Outcome
where
    F: Future<Output = Outcome>,
{
    let mut ttl = brief(profile);
    loop {
        let lateness = Lateness::watch();
        let ended = check(ttl).await;
        let late = lateness.worst();
        match ended {
            Err(why) if ttl < LONGEST && late > ttl / 6 && is_loss(&why) => {
                let by = format!("the machine was late by {late:?} of {ttl:?}");
                let _ = writeln!(stderr(), "excused, because {by}: {why}");
                ttl *= 2;
            }
            ended => return ended,
        }
    }
}

fn is_loss(why: &Failed) -> bool {
    why.downcast_ref::<Error>().is_some_and(Error::is_lost)
}

/// How a wait for what others hold ends, with a limit that is long enough for the
/// engine to answer.
pub(crate) async fn runs_out<T, F>(lock: impl Fn(Duration) -> F) -> Outcome<Error>
where
    F: Future<Output = Result<T>>,
{
    let mut limit = BRIEF;
    loop {
        let error = lock(limit).await.err().ok_or("two holders")?;
        if error.effect() == Effect::NotApplied || limit > PATIENCE {
            return Ok(error);
        }
        limit *= 2;
    }
}

/// Looks again and again until `probe` says yes.
pub(crate) async fn eventually<F>(what: &str, mut probe: impl FnMut() -> F + Send) -> Outcome
where
    F: Future<Output = Outcome<bool>> + Send,
{
    let end = Instant::now() + PATIENCE;
    while !probe().await? {
        ensure!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(3)).await;
    }
    Ok(())
}

/// Waits until exactly so many wait for the name.
pub(crate) async fn queued(mutex: &Lockable, count: usize) -> Outcome {
    let probe = || async { Ok(mutex.status().await?.waiters.len() == count) };
    eventually(&format!("{count} waiters"), probe).await
}

/// Waits until nobody holds the name or waits for it.
pub(crate) async fn idle(mutex: &Lockable) -> Outcome {
    eventually("an idle name", || async { Ok(!mutex.status().await?.is_busy()) }).await
}

/// Takes the name, which must become free.
pub(crate) async fn locked(mutex: &Lockable) -> Outcome<Guard> {
    Ok(mutex.lock().within(PATIENCE).await?)
}

/// Takes the name, which must be free now.
pub(crate) async fn free(mutex: &Lockable) -> Outcome<Guard> {
    mutex.try_lock().await?.ok_or_else(|| "the name is not free".into())
}
