//! A limit on how long to wait.

use std::time::Duration;

use crate::clock::Clock;

/// What `future` gives, unless `span` passes first.
pub(in crate::engines) async fn timeout<T>(
    clock: &Clock,
    span: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep_until(clock.now().after(span)) => None,
    }
}
