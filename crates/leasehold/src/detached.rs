//! Calls that outlive the future that began them.
//!
//! A [`Detached`] call is polled by the user's future while it has a request
//! under way, and goes on at home when it waits for anything else, is dropped, or
//! is not polled for a while (the [`watchdog`]). Its result reaches the user by a
//! [`Handoff`], which, unlike a channel, can be taken back: a lease that was won
//! for a future which nobody polls would keep everyone else waiting.

mod watchdog;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use self::watchdog::{Orphan, Registration};
use crate::engine::BoxFuture;
use crate::home::Handle;

/// One result on its way from a task to a user's future.
pub(crate) struct Handoff<T> {
    state: Mutex<HandoffState<T>>,
    /// The task that fills it, as long as that is not at home.
    task: Mutex<Option<BoxFuture<()>>>,
    /// Whether the task need not be at home now.
    stays: AtomicBool,
    /// Whether the taker polls the task at this moment, and so takes next.
    at_the_door: AtomicBool,
}

#[derive(Debug)]
struct HandoffState<T> {
    item: Option<T>,
    taker: Taker,
    /// The task that waits for the taker's next move.
    giver: Option<Waker>,
}

#[derive(Debug)]
enum Taker {
    /// Alive, and to be woken when there is something to take.
    Waiting(Option<Waker>),
    /// Has what it came for.
    Served,
    /// Was dropped.
    Gone,
}

impl<T> Handoff<T> {
    fn new(stays: bool) -> Self {
        let state = HandoffState { item: None, taker: Taker::Waiting(None), giver: None };
        Self {
            state: Mutex::new(state),
            task: Mutex::default(),
            stays: AtomicBool::new(stays),
            at_the_door: AtomicBool::new(false),
        }
    }

    /// Whether the taker polls the task at this moment: what is put down now it
    /// takes before it does anything else.
    pub(crate) fn is_awaited_here(&self) -> bool {
        self.at_the_door.load(Ordering::Relaxed)
    }

    /// Whether the task has a request under way, and nothing else: then it may
    /// be polled by the user and need not change threads twice.
    pub(crate) fn set_asking(&self, asking: bool) {
        self.stays.store(asking, Ordering::Relaxed);
    }

    /// Puts the result down for the taker. If the taker has gone the result is
    /// dropped, and cleans up after itself.
    pub(crate) fn put(&self, item: T) {
        let mut state = self.state();
        let waker = match &mut state.taker {
            Taker::Waiting(waker) => waker.take(),
            Taker::Served | Taker::Gone => {
                drop(state);
                return drop(item);
            }
        };
        state.item = Some(item);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the result back if nobody has fetched it.
    pub(crate) fn take_back(&self) -> Option<T> {
        self.state().item.take()
    }

    /// Resolves once the taker was dropped.
    pub(crate) async fn abandoned(&self) {
        std::future::poll_fn(|cx| self.poll_giver(cx, |taker| matches!(taker, Taker::Gone))).await;
    }

    /// Resolves once the taker has fetched the result or was dropped.
    pub(crate) async fn settled(&self) {
        let settled = |taker: &Taker| !matches!(taker, Taker::Waiting(_));
        std::future::poll_fn(|cx| self.poll_giver(cx, settled)).await;
    }

    fn poll_giver(&self, cx: &Context<'_>, done: impl Fn(&Taker) -> bool) -> Poll<()> {
        let mut state = self.state();
        if done(&state.taker) {
            return Poll::Ready(());
        }
        state.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_take(&self, cx: &Context<'_>) -> Poll<T> {
        let mut state = self.state();
        let Some(item) = state.item.take() else {
            state.taker = Taker::Waiting(Some(cx.waker().clone()));
            return Poll::Pending;
        };
        Self::leave(state, Taker::Served);
        Poll::Ready(item)
    }

    fn abandon(&self) {
        let mut state = self.state();
        let unfetched = state.item.take();
        Self::leave(state, Taker::Gone);
        drop(unfetched);
    }

    fn leave(mut state: MutexGuard<'_, HandoffState<T>>, how: Taker) {
        state.taker = how;
        let giver = state.giver.take();
        drop(state);
        if let Some(giver) = giver {
            giver.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, HandoffState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task(&self) -> MutexGuard<'_, Option<BoxFuture<()>>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> std::fmt::Debug for Handoff<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handoff")
    }
}

impl<T: Send> Orphan for Handoff<T> {
    fn adopt(&self, home: &Handle) -> bool {
        let Ok(mut slot) = self.task.try_lock() else { return false };
        let task = slot.take();
        drop(slot);
        if let Some(task) = task {
            home.spawn(task);
        }
        true
    }
}

/// A task that runs where it is while it need not wait or has a request under
/// way, and on home from the first time it waits for anything else.
///
/// So one request costs no more thread switches than its answer needs. Nothing
/// depends on the user's future being polled: if that does not happen for a
/// while, or never again, home goes on.
pub(crate) struct Detached<T: Send + 'static> {
    handoff: Arc<Handoff<T>>,
    home: Handle,
    /// While the task is here.
    watched: Option<Registration>,
}

impl<T: Send + 'static> Detached<T> {
    /// `task` makes the future that puts its result into the handoff.
    pub(crate) fn new<F>(home: Handle, task: impl FnOnce(Arc<Handoff<T>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(home, task, false)
    }

    /// A call whose result is what `task` comes to: one request, or little
    /// more.
    pub(crate) fn of(home: Handle, task: impl Future<Output = T> + Send + 'static) -> Self {
        Self::start(home, |handoff| async move { handoff.put(task.await) }, true)
    }

    fn start<F>(home: Handle, task: impl FnOnce(Arc<Handoff<T>>) -> F, stays: bool) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handoff = Arc::new(Handoff::new(stays));
        *handoff.task() = Some(Box::pin(task(Arc::clone(&handoff))));
        Self { handoff, home, watched: None }
    }

    /// The task goes on here, and home knows of it.
    fn stay(&mut self) {
        let handoff: Weak<Handoff<T>> = Arc::downgrade(&self.handoff);
        self.watched.get_or_insert_with(|| Registration::new(handoff, &self.home));
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let handoff = Arc::clone(&self.handoff);
        let mut slot = handoff.task();
        let Some(task) = slot.as_mut() else {
            drop(slot);
            return handoff.poll_take(cx);
        };
        handoff.at_the_door.store(true, Ordering::Relaxed);
        let waits = poll_at_home(&self.home, task, cx).is_pending();
        handoff.at_the_door.store(false, Ordering::Relaxed);
        let taken = handoff.poll_take(cx);
        if waits && taken.is_pending() && handoff.stays.load(Ordering::Relaxed) {
            self.stay();
            return taken;
        }
        let task = slot.take();
        drop(slot);
        self.watched = None;
        if let Some(task) = task.filter(|_| waits && taken.is_pending()) {
            self.home.spawn(task);
        }
        taken
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        self.handoff.abandon();
        // One that was never polled has nothing to finish.
        let begun = self.watched.take().is_some();
        let task = self.handoff.task().take();
        if let Some(task) = task.filter(|_| begun) {
            self.home.spawn(task);
        }
    }
}

impl<T: Send + 'static> std::fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Detached")
    }
}

/// Runs `task` to its end without anyone waiting for it: here if it need not
/// wait, on home otherwise.
pub(crate) fn run_apart(home: &Handle, mut task: BoxFuture<()>) {
    // The waker may be lost: home polls again at once.
    if poll_at_home(home, &mut task, &mut Context::from_waker(Waker::noop())).is_pending() {
        home.spawn(task);
    }
}

/// Asks here, within home's runtime: the answer if it is at hand, or what to
/// wait for. An engine in this process has most answers at hand, and those need
/// no detached call.
pub(crate) fn at_once<T>(
    home: &Handle,
    cx: &mut Context<'_>,
    ask: impl FnOnce() -> BoxFuture<T>,
) -> Result<T, BoxFuture<T>> {
    let _home = home.enter();
    let mut task = ask();
    match task.as_mut().poll(cx) {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => Err(task),
    }
}

/// What `work` comes to, which needs to know who to wake and never waits.
pub(crate) async fn here<T>(work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut work = Some(work);
    let once = |cx: &mut Context<'_>| work.take().map_or(Poll::Pending, |it| Poll::Ready(it(cx)));
    std::future::poll_fn(once).await
}

/// Polls on this thread, within home's runtime.
fn poll_at_home(home: &Handle, task: &mut BoxFuture<()>, cx: &mut Context<'_>) -> Poll<()> {
    let _home = home.enter();
    task.as_mut().poll(cx)
}
