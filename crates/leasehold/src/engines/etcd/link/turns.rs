//! How many requests of a client are under way: servers refuse everybody's once too
//! many wait there.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::{CallFault, late};
use crate::clock::{Clock, Moment};

/// More are of no use to one client. Servers refuse all when 5000 wait.
const MOST: usize = 256;

/// The turns of the requests of one client, first come, first served.
pub(super) struct RequestTurns {
    free: Semaphore,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    /// When anything was last answered.
    answered: Moment,
    /// When anybody last had a turn after standing in line.
    stood: Moment,
}

impl Default for RequestTurns {
    fn default() -> Self {
        Self { free: Semaphore::new(MOST), seen: Mutex::default() }
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
            return Ok((turn, self.moved(by, timeout)));
        }
        let mut turn = std::pin::pin!(self.free.acquire());
        loop {
            let until = by.max(self.seen().answered.after(timeout));
            tokio::select! {
                biased;
                turn = &mut turn => {
                    // Nobody closes it.
                    let turn = turn.map_err(|_| late(false))?;
                    self.seen().stood = clock.now();
                    return Ok((turn, self.moved(by, timeout)));
                }
                () = clock.sleep_until(until) => {}
            }
            if clock.now() >= by.max(self.seen().answered.after(timeout)) {
                return Err(late(false));
            }
        }
    }

    /// When a verb has to end that was to end `by`: as long as requests stand in line
    /// no verb's time runs, be it between two requests of it.
    pub(super) fn moved(&self, by: Moment, timeout: Duration) -> Moment {
        by.max(self.seen().stood.after(timeout))
    }

    pub(super) fn answered(&self, clock: &Clock) {
        self.seen().answered = clock.now();
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if somebody who stood in line had a turn, and was answered.
    #[cfg(test)]
    pub(super) fn one_is_served(&self, clock: &Clock) {
        self.seen().stood = clock.now();
        self.answered(clock);
    }

    /// All of them, for whoever wants others to stand in line.
    #[cfg(test)]
    pub(super) fn take_all(&self) -> SemaphorePermit<'_> {
        let most = u32::try_from(MOST).unwrap();
        self.free.try_acquire_many(most).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;

    const TIMEOUT: Duration = Duration::from_secs(5);

    /// A verb has one time for all of its requests.
    #[tokio::test]
    async fn the_next_request_of_a_verb_whose_first_stood_in_line_has_time() {
        let (turns, test) = (RequestTurns::default(), TestClock::new());
        let clock = Clock::from(test.clone());
        let (all, by) = (turns.take_all(), test.now().after(TIMEOUT));
        let first = turns.take(&clock, by, TIMEOUT);
        let others = async {
            test.advance(TIMEOUT - Duration::from_secs(1));
            turns.answered(&clock);
            tokio::task::yield_now().await;
            test.advance(Duration::from_secs(2));
            drop(all);
        };
        let ((turn, until), ()) = tokio::join!(async { first.await.unwrap() }, others);
        drop(turn);
        assert_eq!(until, test.now().after(TIMEOUT));
        let (_turn, next) = turns.take(&clock, by, TIMEOUT).await.unwrap();
        assert_eq!(next, until, "it has what is left of the time");
        test.advance(TIMEOUT);
        let later = turns.take(&clock, test.now(), TIMEOUT).await.unwrap().1;
        assert_eq!(later, test.now(), "once nobody stands in line, time runs");
    }
}
