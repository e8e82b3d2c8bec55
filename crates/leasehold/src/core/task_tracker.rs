//! What is under way, for those who have to wait for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;

/// How many tasks are under way, and how many of them give a lease back.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTracker(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    open: Mutex<Open>,
    blocked: Condvar,
    waiting: Notify,
}

#[derive(Debug, Default)]
struct Open {
    tasks: usize,
    /// Leases that the engine has not confirmed to have back.
    returns: usize,
    /// When the last of those leases ends by itself.
    returns_end: Moment,
    /// Whether a thread waits for the last one: to wake nobody is not free.
    awaited: bool,
}

/// One task under way.
#[derive(Debug)]
pub(crate) struct Counted {
    tracker: TaskTracker,
    gives_back: bool,
}

impl TaskTracker {
    pub(crate) fn begin(&self) -> Counted {
        self.open().tasks += 1;
        Counted { tracker: self.clone(), gives_back: false }
    }

    /// A lease is on its way back, which the engine has forgotten by then in any
    /// case.
    pub(crate) fn begin_return(&self, forgotten_at: Moment) -> Counted {
        let mut open = self.open();
        open.tasks += 1;
        open.returns += 1;
        open.returns_end = open.returns_end.max(forgotten_at);
        Counted { tracker: self.clone(), gives_back: true }
    }

    /// How many leases are not known to be back, and when the last of them ends by
    /// itself.
    pub(crate) fn unreturned(&self) -> (usize, Moment) {
        let open = self.open();
        (open.returns, open.returns_end)
    }

    /// Blocks this thread until no task is under way, `limit` at most.
    pub(crate) fn block_until_done(&self, limit: Duration) -> bool {
        let still = |open: &mut Open| {
            open.awaited = open.tasks > 0;
            open.awaited
        };
        let wait = self.0.blocked.wait_timeout_while(self.open(), limit, still);
        wait.unwrap_or_else(PoisonError::into_inner).0.tasks == 0
    }

    /// Resolves when no task is under way.
    pub(crate) async fn done(&self) {
        loop {
            let mut change = std::pin::pin!(self.0.waiting.notified());
            change.as_mut().enable();
            if self.open().tasks == 0 {
                return;
            }
            change.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// The task ends, and its lease is not known to be back.
    pub(crate) fn give_up(mut self) {
        self.gives_back = false;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.tracker.open();
        open.tasks -= 1;
        open.returns -= usize::from(self.gives_back);
        if open.returns == 0 {
            open.returns_end = Moment::default();
        }
        if open.tasks > 0 {
            return;
        }
        self.tracker.0.waiting.notify_waiters();
        if open.awaited {
            self.tracker.0.blocked.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_are_not_known_to_be_back_are_counted_until_they_are() {
        let tracker = TaskTracker::default();
        let at = |seconds| Moment::default().after(Duration::from_secs(seconds));
        let (other, long) = (tracker.begin(), tracker.begin_return(at(60)));
        let short = tracker.begin_return(at(10));
        assert_eq!(tracker.unreturned(), (2, at(60)));
        drop(long);
        assert_eq!(tracker.unreturned(), (1, at(60)), "at most");
        drop(short);
        assert_eq!(tracker.unreturned(), (0, Moment::default()));
        tracker.begin_return(at(5)).give_up();
        assert_eq!(tracker.unreturned(), (1, at(5)));
        assert!(!tracker.block_until_done(Duration::ZERO));
        drop(other);
        assert!(tracker.block_until_done(Duration::ZERO), "nothing is under way");
    }
}
