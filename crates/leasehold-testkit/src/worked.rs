//! Time that was really worked, so that a busy machine changes little.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread.
#[must_use]
pub fn by_thread() -> Duration {
    since(ClockId::ThreadCPUTime)
}

/// The processor time of this process.
#[must_use]
pub fn by_process() -> Duration {
    since(ClockId::ProcessCPUTime)
}

fn since(clock: ClockId) -> Duration {
    let t = clock_gettime(clock);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// What this thread works for one call of `count`, in the best of several rounds:
/// `work` is told round and number.
///
/// # Errors
///
/// The first one of `work`.
pub async fn each<E>(
    rounds: u32,
    count: u32,
    mut work: impl AsyncFnMut(u32, u32) -> Result<(), E>,
) -> Result<Duration, E> {
    let mut best = Duration::MAX;
    for round in 0..rounds {
        let start = by_thread();
        for n in 0..count {
            work(round, n).await?;
        }
        best = best.min((by_thread() - start) / count);
    }
    Ok(best)
}
