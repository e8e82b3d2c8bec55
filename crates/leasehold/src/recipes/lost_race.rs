//! A lost race: the pause before the same write is tried again.

use std::time::Duration;

use crate::clock::Clock;
use crate::error::Result;
use crate::locks::Locks;

/// The first pause, which doubles, and the longest.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Rests after so many lost races: not at all after the first, then a little longer
/// each time, and never the same for two. On the host's clock: there is no deadline
/// in it for a test to move.
pub(super) async fn pause(locks: &Locks, losses: u32) -> Result<()> {
    let Some(shift) = losses.checked_sub(2) else { return Ok(()) };
    let most = PAUSE.saturating_mul(1 << shift.min(16)).min(PAUSE_MAX);
    let until = Clock::System.now().after(most.mul_f64(fastrand::f64()));
    let rest = async move {
        Clock::System.sleep_until(until).await;
        Ok(())
    };
    locks.at_home(|| Box::pin(rest)).await
}
