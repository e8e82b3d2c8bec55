//! Time: the only place that reads a clock or sleeps.
//!
//! Deadlines run on a clock that goes on counting while the machine is
//! suspended. A laptop that slept for an hour has lost its leases, and must
//! know it at its first look after waking; the usual monotonic clock would
//! tell it that no time has passed.

#[cfg(feature = "ids")]
pub(crate) mod wall;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

#[cfg(leasehold_sim)]
pub(crate) use crate::sim::wall_micros;

/// The longest nap before the clock is read again. Timers of the runtime stand
/// still during suspend, so a long sleep would end late by the time slept.
const NAP: Duration = Duration::from_millis(500);

/// A point on the clock of this host: time since boot, suspend included.
///
/// ```
/// use std::time::Duration;
/// use leasehold::TestClock;
///
/// let clock = TestClock::new();
/// let start = clock.now();
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now().since(start), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct Moment(u64);

impl Moment {
    /// Later than every moment that will ever be.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment this many nanoseconds after boot.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// This moment plus `span`; stays at [`Moment::NEVER`] on overflow.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// This moment minus `span`; stays at boot on underflow.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// How long after `earlier` this is; zero if it is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(nanos) => write!(f, "boot+{:?}", Duration::from_nanos(nanos)),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The clock that deadlines run on: the host's, or one that a test drives.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The host's clock since boot, suspend included.
    #[default]
    System,
    /// A clock that stands still until a test moves it.
    Test(TestClock),
}

impl Clock {
    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        match self {
            Self::System => since_boot(),
            Self::Test(clock) => clock.now(),
        }
    }

    /// Time since 1970, for what other hosts read: it may jump, so it decides
    /// nothing that must be exact. A test clock counts from 1970.
    #[cfg(feature = "once")]
    pub(crate) fn wall(&self) -> Duration {
        match self {
            Self::System => Duration::from_micros(wall_micros()),
            Self::Test(clock) => Duration::from_nanos(clock.now().nanos()),
        }
    }

    /// Sleeps until `moment`; needs the runtime of home.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        match self {
            _ if moment == Moment::NEVER => std::future::pending().await,
            Self::System => sleep_in_naps(moment).await,
            Self::Test(clock) => clock.reached(moment).await,
        }
    }
}

impl From<TestClock> for Clock {
    fn from(clock: TestClock) -> Self {
        Self::Test(clock)
    }
}

#[cfg(leasehold_sim)]
fn since_boot() -> Moment {
    Moment(crate::sim::nanos())
}

#[cfg(not(leasehold_sim))]
fn since_boot() -> Moment {
    let t = rustix::time::clock_gettime(boot_clock());
    Moment(t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs())
}

#[cfg(all(target_os = "linux", not(leasehold_sim)))]
const fn boot_clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Boottime
}

/// Elsewhere the monotonic clock has to do; on macOS it counts suspend too.
#[cfg(not(any(target_os = "linux", leasehold_sim)))]
const fn boot_clock() -> rustix::time::ClockId {
    rustix::time::ClockId::Monotonic
}

#[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
async fn sleep_in_naps(moment: Moment) {
    loop {
        let left = moment.since(since_boot());
        if left.is_zero() {
            return;
        }
        let nap = left.min(NAP);
        #[cfg(leasehold_sim)]
        let nap = crate::sim::nap(nap);
        tokio::time::sleep(nap).await;
    }
}

/// Blocks this thread.
#[cfg(feature = "ids")]
#[expect(clippy::disallowed_methods, reason = "the one place that sleeps")]
pub(crate) fn block_for(span: Duration) {
    std::thread::sleep(span);
}

/// Microseconds since 1970 by the wall clock: for fences that must not go back
/// over a change of engine, and for showing dates; never for deadlines.
#[cfg(not(leasehold_sim))]
pub(crate) fn wall_micros() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    t.tv_sec.unsigned_abs() * 1_000_000 + t.tv_nsec.unsigned_abs() / 1_000
}

/// A clock that a test moves by hand, for leases that expire without waiting.
///
/// ```
/// # use std::time::Duration;
/// # use leasehold::{Locks, TestClock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// let clock = TestClock::new();
/// let locks = Locks::memory_on(clock.clone());
///
/// let guard = locks.mutex("job").ttl(Duration::from_secs(30)).renew(false).lock().await?;
/// clock.advance(Duration::from_secs(31));
/// assert!(guard.check().is_err(), "a fixed lease ends by itself");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct TestClock(Arc<watch::Sender<Moment>>);

impl TestClock {
    /// A clock that shows one day after boot.
    #[must_use]
    pub fn new() -> Self {
        let start = Moment::default().after(Duration::from_secs(24 * 60 * 60));
        Self(Arc::new(watch::Sender::new(start)))
    }

    /// The moment the clock shows.
    #[must_use]
    pub fn now(&self) -> Moment {
        *self.0.borrow()
    }

    /// Moves the clock forward and wakes everyone whose time has come.
    pub fn advance(&self, span: Duration) {
        self.0.send_modify(|now| *now = now.after(span));
    }

    async fn reached(&self, moment: Moment) {
        let mut shown = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close meanwhile.
        let _ = shown.wait_for(|now| *now >= moment).await;
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock").field(&self.now()).finish()
    }
}
