//! How many requests of a client are under way: servers refuse everybody's once too
//! many wait there.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::{CallFault, late};
use crate::clock::{Clock, Moment};

/// More are of no use to one client. Servers refuse all when 5000 wait.
const MOST: usize = 256;

/// The turns of the requests of one client, first come, first served.
pub(super) struct RequestTurns {
    free: Semaphore,
    /// When anything was last answered.
    answered: Mutex<Moment>,
}

impl Default for RequestTurns {
    fn default() -> Self {
        Self { free: Semaphore::new(MOST), answered: Mutex::default() }
    }
}

impl RequestTurns {
    /// A turn, and when its request has to end: the time in line does not count
    /// while servers answer those before it.
    pub(super) async fn take(
        &self,
        clock: &Clock,
        by: Moment,
        timeout: Duration,
    ) -> Result<(SemaphorePermit<'_>, Moment), CallFault> {
        if let Ok(turn) = self.free.try_acquire() {
            return Ok((turn, by));
        }
        let mut turn = std::pin::pin!(self.free.acquire());
        loop {
            let until = by.max(self.last_answer().after(timeout));
            tokio::select! {
                biased;
                turn = &mut turn => {
                    // Nobody closes it.
                    let turn = turn.map_err(|_| late(false))?;
                    return Ok((turn, by.max(clock.now().after(timeout))));
                }
                () = clock.sleep_until(until) => {}
            }
            if clock.now() >= by.max(self.last_answer().after(timeout)) {
                return Err(late(false));
            }
        }
    }

    pub(super) fn answered(&self, clock: &Clock) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = clock.now();
    }

    fn last_answer(&self) -> Moment {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
