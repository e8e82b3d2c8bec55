//! The view of a cache, as its task and its readers share it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::backlog::Backlog;
use super::entry::CacheEntry;
use super::event::{CacheEvent, StaleReason};
use super::snapshot::Snapshot;
use super::view::CacheView;
use crate::clock::{Clock, Moment};

/// A view, and those who listen. Events are told under the lock, so that each
/// listener hears them in the order in which the view has changed.
#[derive(Debug)]
pub(super) struct SharedView<T> {
    state: RwLock<ViewState<T>>,
    clock: Clock,
}

#[derive(Debug)]
struct ViewState<T> {
    view: CacheView<T>,
    stale_since: Moment,
    listeners: Vec<Arc<Backlog<T>>>,
    closed: bool,
}

impl<T> SharedView<T> {
    pub(super) fn new(view: CacheView<T>, clock: Clock) -> Self {
        let stale_since = clock.now();
        let state = ViewState { view, stale_since, listeners: Vec::new(), closed: false };
        Self { state: RwLock::new(state), clock }
    }

    fn state(&self) -> RwLockReadGuard<'_, ViewState<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look<R>(&self, read: impl FnOnce(&CacheView<T>) -> R) -> R {
        read(&self.state().view)
    }

    pub(super) fn get(&self, text: &str) -> Option<CacheEntry<T>> {
        self.state().view.get(text).cloned()
    }

    pub(super) fn snapshot(&self) -> Snapshot<T> {
        self.state().view.snapshot()
    }

    /// Why it may lack changes, if it does, and since when.
    pub(super) fn stale(&self) -> Option<(StaleReason, Moment)> {
        let state = self.state();
        state.view.stale().map(|reason| (reason, state.stale_since))
    }

    /// Changes the view, and tells what came of it.
    pub(super) fn change<E: IntoIterator<Item = CacheEvent<T>>>(
        &self,
        change: impl FnOnce(&mut CacheView<T>) -> E,
    ) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let was_live = state.view.stale().is_none();
        let events = change(&mut state.view);
        if was_live && state.view.stale().is_some() {
            state.stale_since = self.clock.now();
        }
        for event in events {
            state.listeners.iter().for_each(|listener| listener.push(&event));
        }
    }

    pub(super) fn listen(&self) -> Arc<Backlog<T>> {
        let backlog = Arc::new(Backlog::default());
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.listeners.push(Arc::clone(&backlog));
        if state.closed {
            backlog.close();
        }
        backlog
    }

    pub(super) fn leave(&self, backlog: &Arc<Backlog<T>>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.listeners.retain(|other| !Arc::ptr_eq(other, backlog));
    }

    /// A listener that is behind begins anew with all there is. Nothing changes
    /// meanwhile.
    pub(super) fn catch_up(&self, backlog: &Backlog<T>) {
        let state = self.state();
        if backlog.is_behind() {
            let freshness = state.view.stale().map_or(CacheEvent::Synced, CacheEvent::Stale);
            backlog.restart([CacheEvent::Snapshot(state.view.snapshot()), freshness]);
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.change(CacheView::close);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.listeners.iter().for_each(|listener| listener.close());
    }
}
