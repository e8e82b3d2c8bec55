//! A run that is cut off on purpose: its future is dropped, and the next one is
//! told as if its process had died.

use std::cell::Cell;
use std::convert::Infallible;

use tokio::sync::Notify;

use crate::failure::Failure;

/// Where the work says that it was cut off.
#[derive(Default)]
pub(crate) struct Cut {
    code: Cell<u8>,
    there: Notify,
}

impl Cut {
    /// Cuts off the run that this is called in.
    pub(crate) async fn off(&self, code: u8) -> Infallible {
        self.code.set(code);
        self.there.notify_one();
        std::future::pending().await
    }

    /// What `run` comes to, unless it is cut off.
    pub(crate) async fn or<T>(&self, run: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = run => Ok(done),
            () = self.there.notified() => Err(Failure::silent(self.code.get())),
        }
    }
}
