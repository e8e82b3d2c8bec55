//! The upward channel: what an engine tells without being asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::claim::{LeaseId, Place};
use crate::clock::{Clock, Moment};

/// Something that happened at the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The first connection stands.
    Connected,
    /// The connection is gone; leases live on until their deadlines.
    Suspended,
    /// The connection is back and the leases may still be ours.
    Reconnected,
    /// The connection was away for too long: every lease is lost.
    Disconnected,
    /// One lease or place is gone.
    TicketLost(LeaseId, Loss),
    /// Someone asks the holder to let go; it may take its time.
    RevocationAsked(LeaseId),
    /// One lease or place is kept for this long, which may be less than the
    /// engine has said before.
    Kept(LeaseId, Place),
}

/// Why a lease ended before its guard did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// It was not renewed in time.
    Expired,
    /// An operator took it away.
    Evicted {
        /// Who.
        actor: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// Its session or connection ended.
    Disconnected,
    /// It had been held for as long as `max_hold` allows.
    MaxHold,
    /// It vanished from the store.
    Gone,
}

/// A subscriber's end of an engine's events.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<(Moment, Event)>);

impl Events {
    /// The next event; `None` once the engine is closed.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses nothing: the next one returns it.
    pub async fn next(&mut self) -> Option<Event> {
        self.next_told().await.map(|(_, event)| event)
    }

    /// The next event, and when it was told: whoever listens may come to it late,
    /// and what was asked for since then is none of its business.
    pub(crate) async fn next_told(&mut self) -> Option<(Moment, Event)> {
        self.0.recv().await
    }
}

/// An engine's end: publishes to everyone who listens.
///
/// Unbounded, because dropping the news of a lost lease is not an option;
/// events are rare and listeners live on home. There is no default: what is told on
/// another clock than the engine's comes too early or too late for what it is about.
#[derive(Debug)]
pub struct Bus {
    clock: Clock,
    listeners: Mutex<Vec<mpsc::UnboundedSender<(Moment, Event)>>>,
}

impl Bus {
    /// A bus without listeners, on the clock of its engine.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, listeners: Mutex::default() }
    }

    /// A new listener.
    pub fn subscribe(&self) -> Events {
        let (tx, rx) = mpsc::unbounded_channel();
        self.listeners().push(tx);
        Events(rx)
    }

    /// Tells every listener; those that have gone are forgotten.
    pub fn publish(&self, event: &Event) {
        let told = self.clock.now();
        self.listeners().retain(|listener| listener.send((told, event.clone())).is_ok());
    }

    /// Ends every subscription.
    pub fn close(&self) {
        self.listeners().clear();
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<(Moment, Event)>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
