//! What has to be looked at later: values whose time will be up, marks that will
//! be old.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};

/// More are left to whoever comes by.
const MOST: usize = 100_000;

/// Paths, by the moment they need a look.
#[derive(Debug, Default)]
pub(super) struct Chores {
    due: Mutex<BTreeMap<(Moment, u64), String>>,
    news: Notify,
}

impl Chores {
    pub(super) fn add(&self, at: Moment, path: &str) {
        let mut due = self.locked();
        if due.len() < MOST {
            // Two for the same moment do not hide each other.
            let last = due.range(..=(at, u64::MAX)).next_back().map(|(key, _)| *key);
            let count = last.filter(|(moment, _)| *moment == at).map_or(0, |(_, count)| count + 1);
            due.insert((at, count), path.to_owned());
            drop(due);
            self.news.notify_one();
        }
    }

    /// The next one, when its time has come.
    pub(super) async fn next(&self, clock: &Clock) -> String {
        loop {
            let first = self.locked().first_key_value().map(|(key, _)| key.0);
            tokio::select! {
                () = clock.sleep_until(first.unwrap_or(Moment::NEVER)) => {
                    if let Some((_, path)) = self.locked().pop_first() {
                        return path;
                    }
                }
                () = self.news.notified() => {}
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<(Moment, u64), String>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::TestClock;

    #[tokio::test]
    async fn chores_come_in_the_order_of_their_time() {
        let (chores, test) = (Chores::default(), TestClock::new());
        let (clock, now) = (Clock::from(test.clone()), test.now());
        let second = Duration::from_secs(1);
        chores.add(now.after(2 * second), "/c");
        chores.add(now.after(second), "/a");
        chores.add(now.after(second), "/b");
        test.advance(2 * second);
        for path in ["/a", "/b", "/c"] {
            assert_eq!(chores.next(&clock).await, path);
        }
    }
}
