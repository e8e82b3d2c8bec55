//! A parcel: one result on its way from a task on home to a user's future.
//!
//! Unlike a channel it can be taken back. A lease that was won for a future
//! which nobody polls would keep everyone else waiting; after a while the task
//! takes it back and releases it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use crate::engine::BoxFuture;

#[derive(Debug)]
pub(crate) struct Parcel<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
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

impl<T> Parcel<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner { item: None, taker: Taker::Waiting(None), giver: None }))
    }

    /// Puts the result down for the taker. If the taker has gone the result is
    /// dropped, and cleans up after itself.
    pub(crate) fn put(&self, item: T) {
        let mut inner = self.inner();
        let waker = match &mut inner.taker {
            Taker::Waiting(waker) => waker.take(),
            Taker::Served | Taker::Gone => {
                drop(inner);
                return drop(item);
            }
        };
        inner.item = Some(item);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the result back if nobody has fetched it.
    pub(crate) fn take_back(&self) -> Option<T> {
        self.inner().item.take()
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
        let mut inner = self.inner();
        if done(&inner.taker) {
            return Poll::Ready(());
        }
        inner.giver = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_take(&self, cx: &Context<'_>) -> Poll<T> {
        let mut inner = self.inner();
        let Some(item) = inner.item.take() else {
            inner.taker = Taker::Waiting(Some(cx.waker().clone()));
            return Poll::Pending;
        };
        Self::leave(inner, Taker::Served);
        Poll::Ready(item)
    }

    fn abandon(&self) {
        let mut inner = self.inner();
        let unfetched = inner.item.take();
        Self::leave(inner, Taker::Gone);
        drop(unfetched);
    }

    fn leave(mut inner: MutexGuard<'_, Inner<T>>, how: Taker) {
        inner.taker = how;
        let giver = inner.giver.take();
        drop(inner);
        if let Some(giver) = giver {
            giver.wake();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that runs where it is while it need not wait, and on home from the
/// first time it has to.
///
/// Uncontended work on an engine without I/O thus costs no thread switch, and
/// nothing that waits depends on the user's future being polled.
pub(crate) struct Errand<T> {
    task: Option<BoxFuture<()>>,
    parcel: Arc<Parcel<T>>,
    home: Handle,
}

impl<T: Send + 'static> Errand<T> {
    /// `task` makes the future that puts its result into the parcel.
    pub(crate) fn new<F>(home: Handle, task: impl FnOnce(Arc<Parcel<T>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let parcel = Arc::new(Parcel::new());
        let task: BoxFuture<()> = Box::pin(task(Arc::clone(&parcel)));
        Self { task: Some(task), parcel, home }
    }

    /// An errand whose result is what `task` comes to.
    pub(crate) fn of(home: Handle, task: impl Future<Output = T> + Send + 'static) -> Self {
        Self::new(home, |parcel| async move { parcel.put(task.await) })
    }
}

impl<T> Future for Errand<T> {
    type Output = T;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(mut task) = self.task.take() else { return self.parcel.poll_take(cx) };
        let waits = poll_at_home(&self.home, &mut task);
        let taken = self.parcel.poll_take(cx);
        if waits && taken.is_pending() {
            self.home.spawn(task);
        }
        taken
    }
}

impl<T> Drop for Errand<T> {
    fn drop(&mut self) {
        self.parcel.abandon();
    }
}

impl<T> std::fmt::Debug for Errand<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.task.is_some() { "Errand(new)" } else { "Errand(under way)" })
    }
}

/// Runs `task` to its end without anyone waiting for it: here if it need not
/// wait, on home otherwise.
pub(crate) fn run_apart(home: &Handle, mut task: BoxFuture<()>) {
    if poll_at_home(home, &mut task) {
        home.spawn(task);
    }
}

/// Polls once on this thread, within home's runtime; true if it must wait. The
/// waker may be lost: home polls again at once.
fn poll_at_home(home: &Handle, task: &mut BoxFuture<()>) -> bool {
    let _home = home.enter();
    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}
