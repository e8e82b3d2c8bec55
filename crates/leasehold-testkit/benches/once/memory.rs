//! What the library itself costs: an engine in this process, without a driver or
//! a network. Time that this thread has worked, because nothing of it waits.

use std::time::Duration;

use leasehold::Locks;
use leasehold_testkit::worked;

use super::{Outcome, ROUNDS, one, row};

const COUNT: u32 = 20_000;

/// The time of one call.
async fn each(work: impl AsyncFnMut(u32, u32) -> Outcome) -> Outcome<Duration> {
    worked::each(ROUNDS, COUNT, work).await
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
