//! How many requests of a client are under way at a time: a server has to keep
//! what waits there, and what it has answered and not got rid of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::{Clock, Moment};

/// The slots for the requests of one client, first come, first served.
#[derive(Debug)]
pub(in crate::engines) struct RequestSlots {
    free: Arc<Semaphore>,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// When anything was last answered.
    answered: Moment,
    /// When anybody last had a slot after standing in line.
    stood: Moment,
}

impl RequestSlots {
    pub(in crate::engines) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), seen: Mutex::default() }
    }

    /// A slot, and when its request has to end: the time in line does not count
    /// while servers answer those before it. `None` once they do not.
    pub(in crate::engines) async fn take(
        &self,
        clock: &Clock,
        by: Moment,
        timeout: Duration,
    ) -> Option<(OwnedSemaphorePermit, Moment)> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Some((slot, self.moved(by, timeout)));
        }
        let mut slot = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            let until = by.max(self.seen().answered.after(timeout));
            tokio::select! {
                biased;
                slot = &mut slot => {
                    // Nobody closes it.
                    let slot = slot.ok()?;
                    self.seen().stood = clock.now();
                    return Some((slot, self.moved(by, timeout)));
                }
                () = clock.sleep_until(until) => {}
            }
            if clock.now() >= by.max(self.seen().answered.after(timeout)) {
                return None;
            }
        }
    }

    /// When a verb has to end that was to end `by`: as long as requests stand in line
    /// no verb's time runs, be it between two requests of it.
    pub(in crate::engines) fn moved(&self, by: Moment, timeout: Duration) -> Moment {
        by.max(self.seen().stood.after(timeout))
    }

    pub(in crate::engines) fn answered(&self, clock: &Clock) {
        self.seen().answered = clock.now();
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if somebody who stood in line had a slot, and was answered.
    #[cfg(all(test, feature = "etcd"))]
    pub(in crate::engines) fn one_is_served(&self, clock: &Clock) {
        self.seen().stood = clock.now();
        self.answered(clock);
    }

    /// All of them, for whoever wants others to stand in line.
    #[cfg(test)]
    pub(in crate::engines) fn take_all(&self) -> OwnedSemaphorePermit {
        let most = u32::try_from(self.free.available_permits()).unwrap();
        Arc::clone(&self.free).try_acquire_many_owned(most).unwrap()
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
        let (slots, test) = (RequestSlots::new(256), TestClock::new());
        let clock = Clock::from(test.clone());
        let (all, by) = (slots.take_all(), test.now().after(TIMEOUT));
        let first = slots.take(&clock, by, TIMEOUT);
        let others = async {
            test.advance(TIMEOUT - Duration::from_secs(1));
            slots.answered(&clock);
            tokio::task::yield_now().await;
            test.advance(Duration::from_secs(2));
            drop(all);
        };
        let ((slot, until), ()) = tokio::join!(async { first.await.unwrap() }, others);
        drop(slot);
        assert_eq!(until, test.now().after(TIMEOUT));
        let (_slot, next) = slots.take(&clock, by, TIMEOUT).await.unwrap();
        assert_eq!(next, until, "it has what is left of the time");
        test.advance(TIMEOUT);
        let later = slots.take(&clock, test.now(), TIMEOUT).await.unwrap().1;
        assert_eq!(later, test.now(), "once nobody stands in line, time runs");
    }
}
