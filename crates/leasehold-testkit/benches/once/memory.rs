//! What the library itself costs: an engine in this process, without a driver or
//! a network. Time that this thread has worked, because nothing of it waits.

use std::time::Duration;

use leasehold::Locks;
use rustix::time::{ClockId, clock_gettime};

use super::{Outcome, ROUNDS, one, row};

const COUNT: u32 = 20_000;

/// The processor time of this thread.
fn worked() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or_default())
}

/// The time of one call, the best of several rounds: `work` is told round and
/// number.
async fn each(mut work: impl AsyncFnMut(u32, u32) -> Outcome) -> Outcome<Duration> {
    let mut best = Duration::MAX;
    for round in 0..ROUNDS {
        let start = worked();
        for n in 0..COUNT {
            work(round, n).await?;
        }
        best = best.min((worked() - start) / COUNT);
    }
    Ok(best)
}

pub(crate) async fn report() -> Outcome {
    let once = Locks::memory().once("m");
    let mutex = Locks::memory().mutex("m");
    let bare = each(async |_, _| {
        mutex.lock().await?.release().await?;
        Ok(())
    })
    .await?;
    let fresh = each(async |round, n| one(&once, format!("{round} {n}")).await).await?;
    let again = each(async |_, n| one(&once, format!("0 {}", n % 500)).await).await?;
    row("memory: fresh", fresh, "2 µs", Duration::from_micros(2));
    row("memory: fresh", fresh, "lock + release of a mutex", bare);
    row("memory: replay", again, "0.6 µs", Duration::from_nanos(600));
    Ok(())
}
