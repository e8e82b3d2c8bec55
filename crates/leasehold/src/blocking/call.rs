//! A blocking call: a future that is driven by the thread that waits for it.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake};

use tokio::runtime::Handle;

use crate::error::{Error, Result};

/// Waits for `future` on this thread.
///
/// What it waits for happens on home, so this thread needs no runtime. Inside
/// one it is refused: the thread it would block has other tasks.
pub(super) fn block_on<T, E: From<Error>>(
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    if Handle::try_current().is_ok() {
        return Err(inside_a_runtime().into());
    }
    let signal = Arc::new(Signal::default());
    let waker = Arc::clone(&signal).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => signal.wait(),
        }
    }
}

fn inside_a_runtime() -> Error {
    Error::invalid(
        "a blocking call inside an async runtime would stop its other tasks; await the same call \
         of leasehold::Locks instead (Locks::as_async), or block on a thread of your own",
    )
}

/// Not `thread::park`: its token belongs to the user, who may count on it.
#[derive(Default)]
struct Signal {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn wait(&self) {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let given = self.changed.wait_while(given, |given| !*given);
        *given.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}
