//! One wait, as those see it who do not wait themselves.

use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, watch};

use crate::error::Error;

/// A wait that is under way.
#[derive(Debug)]
pub(super) struct AdvisoryWaiter {
    pub(super) label: Arc<str>,
    session: OnceLock<i64>,
    stop: Notify,
    /// Why it ended without the lock.
    failed: OnceLock<Error>,
    /// Closed with the wait.
    ended: watch::Receiver<()>,
}

impl AdvisoryWaiter {
    /// One that begins, and what is dropped when it has ended.
    pub(super) fn new(label: &str) -> (Arc<Self>, watch::Sender<()>) {
        let (running, ended) = watch::channel(());
        let waiter = Self {
            label: label.into(),
            session: OnceLock::new(),
            stop: Notify::new(),
            failed: OnceLock::new(),
            ended,
        };
        (Arc::new(waiter), running)
    }

    /// It waits in this session.
    pub(super) fn introduce(&self, session: i64) {
        let _ = self.session.set(session);
    }

    pub(super) fn session(&self) -> Option<i64> {
        self.session.get().copied()
    }

    /// Why it ended without the lock, if it did.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failed.get().cloned()
    }

    pub(super) fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
    }

    /// Until it is told to stop.
    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    /// Until it has ended, with or without the lock.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}
