//! What a watcher has not seen yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::engine::RecordEvent;

/// How far a watcher may fall behind before it has to load again.
const EVENTS_MAX: usize = 1024;
const BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct WatchQueue {
    queue: Mutex<QueuedEvents>,
    news: Notify,
}

#[derive(Debug, Default)]
struct QueuedEvents {
    events: VecDeque<RecordEvent>,
    bytes: usize,
    closed: bool,
}

impl WatchQueue {
    fn queue(&self) -> MutexGuard<'_, QueuedEvents> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: RecordEvent) {
        let mut queue = self.queue();
        queue.bytes += size(&event);
        queue.events.push_back(event);
        if queue.events.len() > EVENTS_MAX || queue.bytes > BYTES_MAX {
            queue.events = VecDeque::from([RecordEvent::Resync]);
            queue.bytes = 0;
        }
        drop(queue);
        self.news.notify_one();
    }

    /// What comes next: an event, `Some(None)` at the end, `None` if there is
    /// nothing yet.
    pub(crate) fn pop(&self) -> Option<Option<RecordEvent>> {
        let mut queue = self.queue();
        let event = queue.events.pop_front();
        queue.bytes -= event.as_ref().map_or(0, size);
        (event.is_some() || queue.closed).then_some(event)
    }

    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.news.notify_one();
    }

    /// Resolves when there may be something to pop.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

fn size(event: &RecordEvent) -> usize {
    match event {
        RecordEvent::Stored(_, record) => record.value.len(),
        RecordEvent::Deleted(..) | RecordEvent::Resync => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_that_falls_behind_is_told_to_load_again() {
        let queue = WatchQueue::default();
        let name = crate::name::Name::new(&crate::name::Namespace::default(), "n").unwrap();
        let deleted = || RecordEvent::Deleted(name.clone(), 1);
        (0..EVENTS_MAX).for_each(|_| queue.push(deleted()));
        assert_eq!(queue.pop(), Some(Some(deleted())));
        (0..3).for_each(|_| queue.push(deleted()));
        assert_eq!(queue.pop(), Some(Some(RecordEvent::Resync)));
        assert_eq!(queue.pop(), Some(Some(deleted())), "and hears what follows");
    }
}
