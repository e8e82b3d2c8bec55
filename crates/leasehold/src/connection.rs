//! The connection to an engine, as its users see it come and go.

use crate::clock::Clock;
use crate::engine::{Bus, Event, Events};

/// How the connection to an engine stands; the words are Curator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// It stands. An engine without a connection is always connected.
    Connected,
    /// It is gone. Leases are good until their deadlines; what must not happen
    /// twice should pause.
    Suspended,
    /// It is back, and leases may still be ours: their guards know.
    Reconnected,
    /// It was away for too long: every lease is lost.
    Lost,
}

impl ConnectionState {
    /// What an event says about the connection; `None` if it is about a lease.
    pub(crate) const fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Connected => Some(Self::Connected),
            Event::Suspended => Some(Self::Suspended),
            Event::Reconnected => Some(Self::Reconnected),
            Event::Disconnected => Some(Self::Lost),
            Event::TicketLost(..) | Event::RevocationAsked(_) | Event::Kept(..) => None,
        }
    }
}

/// The states of a connection, one after the other, from the present one on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::{ConnectionState, Locks};
///
/// let locks = Locks::memory();
/// let mut events = locks.events();
/// assert_eq!(events.next().await, Some(ConnectionState::Connected));
/// drop(locks);
/// assert_eq!(events.next().await, None);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ConnectionEvents {
    present: Option<ConnectionState>,
    last: Option<ConnectionState>,
    events: Events,
}

impl ConnectionEvents {
    /// Listens to `events`, which were subscribed to before `present` was read.
    pub(crate) const fn new(events: Events, present: ConnectionState) -> Self {
        Self { present: Some(present), last: None, events }
    }

    /// Nothing more to come.
    pub(crate) fn ended() -> Self {
        Self { present: None, last: None, events: Bus::new(Clock::System).subscribe() }
    }

    /// The present state at the first call, then each change; `None` once the
    /// locks are shut down or dropped.
    ///
    /// # Cancel safety
    ///
    /// A dropped call misses nothing: the next one returns it.
    pub async fn next(&mut self) -> Option<ConnectionState> {
        loop {
            let state = match self.present.take() {
                Some(state) => Some(state),
                None => ConnectionState::of(&self.events.next().await?),
            };
            // What happened between subscribing and the first look comes twice.
            if state.is_some() && state != self.last {
                self.last = state;
                return state;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::LeaseId;
    use crate::engine::Loss;

    #[tokio::test]
    async fn tells_the_present_state_first_and_keeps_leases_to_itself() {
        let bus = Bus::new(Clock::System);
        let mut events = ConnectionEvents::new(bus.subscribe(), ConnectionState::Suspended);
        let secret = LeaseId::random();
        for event in [
            Event::Suspended,
            Event::TicketLost(secret, Loss::Gone),
            Event::Reconnected,
            Event::RevocationAsked(secret),
            Event::Disconnected,
            Event::Connected,
        ] {
            bus.publish(&event);
        }
        bus.close();
        let mut seen = Vec::new();
        while let Some(state) = events.next().await {
            seen.push(state);
        }
        use ConnectionState::{Connected, Lost, Reconnected, Suspended};
        assert_eq!(seen, [Suspended, Reconnected, Lost, Connected]);
    }
}
