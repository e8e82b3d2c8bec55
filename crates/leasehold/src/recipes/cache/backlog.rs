//! What one listener has not read yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::event::CacheEvent;

/// How far a listener may fall behind.
const EVENTS_MAX: usize = 1024;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// What one listener has not read yet: some events, or more than are kept. Of those
/// none is kept, and the listener begins anew with what there is by then.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    unread: Mutex<Unread<T>>,
    news: Notify,
}

#[derive(Debug)]
struct Unread<T> {
    events: VecDeque<CacheEvent<T>>,
    bytes: usize,
    /// It has to begin anew, as it has at first.
    behind: bool,
    closed: bool,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        let unread = Unread { events: VecDeque::new(), bytes: 0, behind: true, closed: false };
        Self { unread: Mutex::new(unread), news: Notify::new() }
    }
}

impl<T> Backlog<T> {
    fn unread(&self) -> MutexGuard<'_, Unread<T>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, event: &CacheEvent<T>) {
        let mut unread = self.unread();
        if !unread.behind {
            unread.push(event.clone());
        }
        drop(unread);
        self.news.notify_one();
    }

    pub(super) fn is_behind(&self) -> bool {
        self.unread().behind
    }

    /// Begins anew, with these events.
    pub(super) fn restart(&self, events: impl IntoIterator<Item = CacheEvent<T>>) {
        let mut unread = self.unread();
        unread.behind = false;
        unread.events.extend(events);
    }

    /// What comes next: an event, `Some(None)` at the end, `None` if there is nothing
    /// yet.
    pub(super) fn pop(&self) -> Option<Option<CacheEvent<T>>> {
        let mut unread = self.unread();
        let event = unread.events.pop_front();
        unread.bytes -= event.as_ref().map_or(0, CacheEvent::weight);
        (event.is_some() || unread.closed).then_some(event)
    }

    pub(super) fn close(&self) {
        self.unread().closed = true;
        self.news.notify_one();
    }
}

impl<T: Send + Sync> Backlog<T> {
    /// Resolves when there may be something to pop.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }
}

impl<T> Unread<T> {
    fn push(&mut self, event: CacheEvent<T>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            self.events = VecDeque::new();
            (self.bytes, self.behind) = (0, true);
        }
    }
}
