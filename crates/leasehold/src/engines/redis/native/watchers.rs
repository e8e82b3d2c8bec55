//! The watchers of one client: who is told of which changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stored_record;
use crate::engine::{RecordEvent, Scope};
use crate::engines::kit::watch_queue::WatchQueue;
use crate::name::Namespace;

/// Those who watch records.
#[derive(Debug, Default)]
pub(super) struct NativeWatchers(Mutex<Crowd>);

#[derive(Debug, Default)]
struct Crowd {
    queues: Vec<(Scope, Arc<WatchQueue>)>,
    /// Whose changes a channel tells.
    channels: HashMap<Vec<u8>, Namespace>,
}

impl NativeWatchers {
    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message, if it is of a channel that tells changes.
    pub(super) fn hear(&self, channel: &[u8], payload: &[u8]) -> bool {
        let crowd = self.crowd();
        let Some(space) = crowd.channels.get(channel) else { return false };
        // What is no change is nobody's: anyone may publish.
        if let Ok(event) = stored_record::event(space, payload) {
            crowd.tell(&event);
        }
        true
    }

    /// Something may have been missed.
    pub(super) fn resync(&self) {
        self.crowd().resync();
    }

    pub(super) fn close(&self) {
        self.crowd().queues.drain(..).for_each(|(_, queue)| queue.close());
    }

    pub(super) fn add(&self, scope: Scope, channels: Vec<Vec<u8>>) -> Arc<WatchQueue> {
        let queue = Arc::new(WatchQueue::default());
        let mut crowd = self.crowd();
        let space = scope.namespace().clone();
        crowd.channels.extend(channels.into_iter().map(|channel| (channel, space.clone())));
        crowd.queues.push((scope, Arc::clone(&queue)));
        queue
    }

    pub(super) fn remove(&self, queue: &Arc<WatchQueue>, space: &Namespace) {
        let mut crowd = self.crowd();
        crowd.queues.retain(|(_, other)| !Arc::ptr_eq(other, queue));
        if crowd.queues.iter().all(|(scope, _)| scope.namespace() != space) {
            crowd.channels.retain(|_, other| other != space);
        }
    }
}

impl Crowd {
    fn resync(&self) {
        self.queues.iter().for_each(|(_, queue)| queue.push(RecordEvent::Resync));
    }

    fn tell(&self, event: &RecordEvent) {
        let (RecordEvent::Stored(name, _) | RecordEvent::Deleted(name, _)) = event else {
            return self.resync();
        };
        let hearers = self.queues.iter().filter(|(scope, _)| scope.covers(name));
        hearers.for_each(|(_, queue)| queue.push(event.clone()));
    }
}
