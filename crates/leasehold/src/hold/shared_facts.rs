//! What is known of a ticket, for the tasks that share it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::facts::Facts;

/// Facts that can be waited for.
#[derive(Debug)]
pub(super) struct SharedFacts {
    facts: Mutex<Facts>,
    changed: Notify,
}

impl SharedFacts {
    pub(super) fn new(facts: Facts) -> Self {
        Self { facts: Mutex::new(facts), changed: Notify::new() }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something that others may wait for.
    #[inline]
    pub(super) fn change(&self, how: impl FnOnce(&mut Facts)) {
        let mut facts = self.lock();
        how(&mut facts);
        let is_watched = facts.is_watched;
        drop(facts);
        if is_watched {
            self.changed.notify_waiters();
        }
    }

    /// Wakes those who wait for a change.
    #[inline]
    pub(super) fn tell(&self, facts: &Facts) {
        if facts.is_watched {
            self.changed.notify_waiters();
        }
    }

    /// Resolves once it is so.
    pub(super) async fn until(&self, done: impl Fn(&Facts) -> bool + Send) {
        loop {
            let mut change = std::pin::pin!(self.changed.notified());
            change.as_mut().enable();
            if self.watch(&done) {
                return;
            }
            change.await;
        }
    }

    /// Whether it is so; if not, whoever changes something next tells.
    fn watch(&self, done: impl Fn(&Facts) -> bool) -> bool {
        let mut facts = self.lock();
        facts.is_watched = true;
        done(&facts)
    }
}
