//! Retries while an engine cannot be reached.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Ending, Mode, Refresh, Released, Renewal, Ticket, Verdict, Wake};
use crate::clock::{Clock, Moment};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};

/// How often, and how long apart, to try again while an engine cannot be
/// reached.
///
/// A claim keeps its lease id, so a retry after a lost reply is granted what
/// the first try was granted; it never waits for itself.
///
/// In a URL: `?retry=none`, `once:SLEEP`, `times:N,SLEEP`, `elapsed:MAX,SLEEP`,
/// `exponential:BASE,N,MAX` or `forever:SLEEP`, for example
/// `?retry=exponential:50ms,5,2s`.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Retry;
///
/// assert_eq!("times:3,100ms".parse::<Retry>()?, Retry::times(3, Duration::from_millis(100)));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry(Policy);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Times { count: u32, sleep: Duration },
    Elapsed { most: Duration, sleep: Duration },
    Exponential { base: Duration, count: u32, most: Duration },
    Forever { sleep: Duration },
}

impl Retry {
    /// Never.
    #[must_use]
    pub const fn none() -> Self {
        Self::times(0, Duration::ZERO)
    }

    /// Once, after `sleep`.
    #[must_use]
    pub const fn once(sleep: Duration) -> Self {
        Self::times(1, sleep)
    }

    /// At most `count` times, `sleep` apart.
    #[must_use]
    pub const fn times(count: u32, sleep: Duration) -> Self {
        Self(Policy::Times { count, sleep })
    }

    /// Until `most` has passed, `sleep` apart.
    #[must_use]
    pub const fn until_elapsed(most: Duration, sleep: Duration) -> Self {
        Self(Policy::Elapsed { most, sleep })
    }

    /// At most `count` times, `base` times a random number that grows with each
    /// retry apart, but never more than `most`.
    #[must_use]
    pub const fn exponential(base: Duration, count: u32, most: Duration) -> Self {
        Self(Policy::Exponential { base, count, most })
    }

    /// For ever, `sleep` apart.
    #[must_use]
    pub const fn forever(sleep: Duration) -> Self {
        Self(Policy::Forever { sleep })
    }

    /// How long to sleep before retry number `retry`, counted from 0; `None` to
    /// give up.
    fn sleep(self, retry: u32, elapsed: Duration) -> Option<Duration> {
        match self.0 {
            Policy::Times { count, sleep } => (retry < count).then_some(sleep),
            Policy::Elapsed { most, sleep } => (elapsed < most).then_some(sleep),
            Policy::Forever { sleep } => Some(sleep),
            Policy::Exponential { base, count, most } => {
                let range = 1_u32 << (retry + 1).min(20);
                let sleep = base.saturating_mul(fastrand::u32(..range).max(1)).min(most);
                (retry < count).then_some(sleep)
            }
        }
    }
}

impl Default for Retry {
    /// Five times, from 50 ms up to 2 s apart.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(50), 5, Duration::from_secs(2))
    }
}

impl std::str::FromStr for Retry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = rest.split(',').filter(|part| !part.is_empty()).collect();
        let span = crate::url::span;
        let count = |text: &str| text.parse().ok();
        let policy = match (kind, &parts[..]) {
            ("none", []) => Some(Self::none()),
            ("once", [sleep]) => span(sleep).map(Self::once),
            ("times", [n, sleep]) => count(n).zip(span(sleep)).map(|(n, s)| Self::times(n, s)),
            ("elapsed", [most, sleep]) => {
                span(most).zip(span(sleep)).map(|(most, s)| Self::until_elapsed(most, s))
            }
            ("exponential", [base, n, most]) => span(base)
                .zip(count(n))
                .zip(span(most))
                .map(|((base, n), most)| Self::exponential(base, n, most)),
            ("forever", [sleep]) => span(sleep).map(Self::forever),
            _ => None,
        };
        policy.ok_or_else(|| Error::invalid(format!("retry takes {FORMS}")))
    }
}

const FORMS: &str = "none, once:SLEEP, times:N,SLEEP, elapsed:MAX,SLEEP, \
                     exponential:BASE,N,MAX or forever:SLEEP, with times such as 50ms or 2s";

/// Who hears of a request that fails again and again: how often, and why.
type Hears = fn(&'static str, u32, &Error);

/// An engine that tries again.
#[derive(Debug)]
pub(crate) struct Retrying {
    engine: Arc<dyn Engine>,
    clock: Clock,
    policy: Retry,
    hears: Hears,
}

impl Retrying {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: Clock, policy: Retry) -> Self {
        Self { engine, clock, policy, hears: |_, _, _| () }
    }

    /// Tells this one, by the scheme of the engine.
    pub(crate) fn telling(self, hears: Hears) -> Self {
        Self { hears, ..self }
    }

    /// Tries again for as long as the policy says; for verbs that are idempotent.
    fn retry<T: Send + 'static>(
        &self,
        call: impl Fn(&dyn Engine) -> BoxFuture<Result<T>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        self.retry_and_tell(call, |done, _| done)
    }

    /// The same; `tell` has the last word, and hears whether an earlier try may
    /// have taken effect.
    fn retry_and_tell<T: Send + 'static>(
        &self,
        call: impl Fn(&dyn Engine) -> BoxFuture<Result<T>> + Send + 'static,
        tell: impl FnOnce(T, bool) -> T + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (clock, policy) = (self.clock.clone(), self.policy);
        let first = call(&*self.engine);
        let (engine, hears) = (Arc::clone(&self.engine), self.hears);
        Box::pin(async move {
            let mut outcome = first.await;
            let start = clock.now();
            let (mut retry, mut doubtful) = (0, false);
            while let Err(error) = &outcome
                && error.kind() == ErrorKind::Unavailable
                && let Some(sleep) = policy.sleep(retry, clock.now().since(start))
            {
                retry += 1;
                doubtful |= error.effect() == Effect::Unknown;
                if is_worth_a_word(retry) {
                    hears(engine.profile().scheme, retry, error);
                }
                clock.sleep_until(clock.now().after(sleep)).await;
                outcome = call(&*engine).await;
            }
            match outcome {
                Ok(done) => Ok(tell(done, doubtful)),
                // That the last try had no effect says nothing of the others.
                Err(error) if doubtful => Err(error.unknown()),
                Err(error) => Err(error),
            }
        })
    }
}

/// What a release has come to, of which an earlier try may have taken effect. A
/// lease that was certainly ours until now, and is gone, was released by that
/// try. One that was to leave a record is left in doubt: who wants to know looks
/// at the record.
fn told(found: Released, doubtful: bool, ours: bool) -> Released {
    let was_us = doubtful && ours && !mutant::lives(Mutant::RetriedReleaseIsLost);
    if was_us { Released::Released } else { found }
}

/// The first failures are everyday; who fails for ever says so ever less often.
const fn is_worth_a_word(tries: u32) -> bool {
    tries >= 4 && tries.is_power_of_two()
}

impl Engine for Retrying {
    fn profile(&self) -> &Profile {
        self.engine.profile()
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        self.retry(move |engine| engine.acquire(claim.clone()))
    }

    /// The waiting loop looks again by itself.
    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.engine.wait(ticket, until)
    }

    /// The keeper tries again by itself, and knows how long it may.
    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        self.engine.renew(tickets)
    }

    /// A retry finds nothing to release if the first try took effect.
    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let until = ending.sure_until.filter(|_| ending.store.is_none()).unwrap_or_default();
        let clock = self.clock.clone();
        self.retry_and_tell(
            move |engine| engine.release(ticket.clone(), ending.clone()),
            move |found, doubtful| told(found, doubtful, clock.now() < until),
        )
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        self.retry(move |engine| engine.convert(ticket.clone(), to))
    }

    fn events(&self) -> Events {
        self.engine.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        self.retry(move |engine| engine.inspect(selector.clone(), page.clone()))
    }

    /// Not retried: an operator who is told of the failure looks first.
    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        self.engine.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.retry(|engine| engine.examine())
    }

    /// Not retried: a write of a record knows no ticket, so it must not be sent
    /// twice.
    fn records(&self) -> Option<&dyn RecordStore> {
        self.engine.records()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.engine.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sleeps(policy: Retry, tries: u32) -> Vec<Option<Duration>> {
        (0..tries).map(|retry| policy.sleep(retry, Duration::ZERO)).collect()
    }

    #[test]
    fn policies_end_when_they_say() {
        assert_eq!(sleeps(Retry::none(), 1), [None]);
        assert_eq!(sleeps(Retry::once(MS), 2), [Some(MS), None]);
        assert_eq!(sleeps(Retry::times(2, MS), 3), [Some(MS), Some(MS), None]);
        assert_eq!(Retry::until_elapsed(9 * MS, MS).sleep(100, 8 * MS), Some(MS));
        assert_eq!(Retry::until_elapsed(9 * MS, MS).sleep(0, 9 * MS), None);
        assert_eq!(Retry::forever(MS).sleep(u32::MAX - 1, Duration::MAX), Some(MS));
    }

    #[test]
    fn who_fails_for_ever_does_not_fill_the_log() {
        let told: Vec<_> = (0..1000).filter(|tries| is_worth_a_word(*tries)).collect();
        assert_eq!(told, [4, 8, 16, 32, 64, 128, 256, 512]);
    }

    #[test]
    fn exponential_sleeps_grow_and_are_capped() {
        let policy = Retry::exponential(MS, 40, 50 * MS);
        for retry in 0..40 {
            let sleep = policy.sleep(retry, Duration::ZERO).unwrap();
            assert!(sleep >= MS && sleep <= 50 * MS);
            assert!(sleep <= MS * (1 << (retry + 1).min(20)));
        }
        assert_eq!(policy.sleep(40, Duration::ZERO), None);
    }

    #[test]
    fn policies_are_read_from_text() {
        let read = |text: &str| text.parse::<Retry>();
        assert_eq!(read("none").unwrap(), Retry::none());
        assert_eq!(read("times:3,10ms").unwrap(), Retry::times(3, 10 * MS));
        let five = Retry::exponential(50 * MS, 5, 2000 * MS);
        assert_eq!(read("exponential:50ms,5,2s").unwrap(), five);
        for bad in ["", "sometimes", "once", "times:x,1s", "once:1", "none:1s"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("exponential:BASE,N,MAX"), "{bad}: {error}");
        }
    }
}
