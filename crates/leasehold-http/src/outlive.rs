//! Work that outlives the one who waits for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that goes on as a task if it is dropped before its end. As long as
/// someone waits for it, it runs where they are, which costs nothing.
pub(crate) struct Outlive<F: Future<Output: Send> + Send + 'static> {
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send> + Send + 'static> Outlive<F> {
    /// Needs a runtime around it.
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)), runtime: Handle::current() }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Outlive<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Work that panics is not put back.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_pending() {
            self.work = Some(work);
        }
        done
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Outlive<F> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(work);
        }
    }
}
