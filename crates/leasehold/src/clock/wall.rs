//! The wall clock: the time that ids carry.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// The wall clock, by which ids tell their time; never for deadlines.
#[derive(Clone, Debug, Default)]
pub enum WallClock {
    /// The host's clock, read each time.
    #[default]
    System,
    /// The host's clock as of its last tick: up to some milliseconds old, and
    /// a third of the price.
    Coarse,
    /// A clock that a test steps.
    Test(TestWall),
}

impl WallClock {
    /// Milliseconds since 1970.
    #[inline]
    #[must_use]
    pub fn millis(&self) -> u64 {
        match self {
            Self::System => wall_millis(ClockId::Realtime),
            Self::Coarse => wall_millis(coarse_clock()),
            Self::Test(clock) => clock.millis(),
        }
    }
}

#[inline]
fn wall_millis(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.unsigned_abs() * 1_000 + t.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(target_os = "linux")]
const fn coarse_clock() -> ClockId {
    ClockId::RealtimeCoarse
}

#[cfg(not(target_os = "linux"))]
const fn coarse_clock() -> ClockId {
    ClockId::Realtime
}

/// A wall clock that a test steps: it shows the host's time, or stands still,
/// shifted by what it was told.
///
/// ```
/// use leasehold::ids::TestWall;
///
/// let clock = TestWall::still(1_700_000_000_000);
/// clock.step(-400);
/// assert_eq!(clock.millis(), 1_699_999_999_600);
/// ```
#[derive(Clone, Debug)]
pub struct TestWall {
    stands_at: Option<u64>,
    shift: Arc<AtomicI64>,
}

impl TestWall {
    /// A clock that stands still at so many milliseconds since 1970.
    #[must_use]
    pub fn still(millis: u64) -> Self {
        Self { stands_at: Some(millis), shift: Arc::default() }
    }

    /// A clock that runs with the host's.
    #[must_use]
    pub fn running() -> Self {
        Self { stands_at: None, shift: Arc::default() }
    }

    /// Steps the clock by so many milliseconds.
    pub fn step(&self, millis: i64) {
        self.shift.fetch_add(millis, Ordering::SeqCst);
    }

    /// Milliseconds since 1970, as it shows them.
    #[must_use]
    pub fn millis(&self) -> u64 {
        let base = self.stands_at.unwrap_or_else(|| WallClock::System.millis());
        base.saturating_add_signed(self.shift.load(Ordering::SeqCst))
    }
}

impl From<TestWall> for WallClock {
    fn from(clock: TestWall) -> Self {
        Self::Test(clock)
    }
}
