//! The connection to an engine, for threads.

use super::call::block_on;
use crate::connection::{self, ConnectionState};
use crate::error::Result;

/// The states of a connection, one after the other, from the present one on:
/// for a thread that does nothing else.
///
/// ```
/// # use leasehold::{ConnectionState, blocking::Locks};
/// let locks = Locks::memory();
/// let mut events = locks.events();
/// assert_eq!(events.next()?, Some(ConnectionState::Connected));
/// drop(locks);
/// assert_eq!(events.next()?, None);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct ConnectionEvents(connection::ConnectionEvents);

impl ConnectionEvents {
    pub(super) const fn new(events: connection::ConnectionEvents) -> Self {
        Self(events)
    }

    /// The present state at the first call, then waits for each change; `None`
    /// once the locks are shut down or dropped.
    ///
    /// # Errors
    ///
    /// `Invalid` inside an async runtime.
    #[expect(clippy::should_implement_trait, reason = "it blocks, and may be refused")]
    pub fn next(&mut self) -> Result<Option<ConnectionState>> {
        block_on(async { Ok(self.0.next().await) })
    }
}
