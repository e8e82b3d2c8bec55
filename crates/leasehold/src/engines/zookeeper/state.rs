//! Tells of sessions that lose their connection, get it back, or end.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::engine::{Bus, Event};

#[derive(Debug)]
pub(super) struct StatePublisher {
    bus: Bus,
    states: Mutex<SessionStates>,
}

#[derive(Debug, Default)]
struct SessionStates {
    /// Which sessions there are, and whether each has a connection.
    up: BTreeMap<u64, bool>,
    /// What was told last.
    told: ClientState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ClientState {
    #[default]
    Fine,
    Suspended,
    Disconnected,
}

impl StatePublisher {
    pub(super) fn new(clock: Clock) -> Self {
        Self { bus: Bus::new(clock), states: Mutex::default() }
    }

    pub(super) const fn bus(&self) -> &Bus {
        &self.bus
    }

    /// A session has a connection, or none.
    pub(super) fn set(&self, session: u64, up: bool) {
        self.change(|all| _ = all.insert(session, up));
    }

    /// A session is over.
    pub(super) fn over(&self, session: u64) {
        self.change(|all| _ = all.remove(&session));
    }

    /// Nobody has heard of any session yet.
    pub(super) fn begin_anew(&self) {
        *self.states.lock().unwrap_or_else(PoisonError::into_inner) = SessionStates::default();
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, bool>)) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut states.up);
        let now = together(&states.up);
        let before = std::mem::replace(&mut states.told, now);
        if let Some(event) = event(before, now) {
            self.bus.publish(&event);
        }
    }
}

fn together(up: &BTreeMap<u64, bool>) -> ClientState {
    match up.values().all(|up| *up) {
        _ if up.is_empty() => ClientState::Disconnected,
        true => ClientState::Fine,
        false => ClientState::Suspended,
    }
}

fn event(before: ClientState, now: ClientState) -> Option<Event> {
    match (before, now) {
        (ClientState::Fine, ClientState::Suspended) => Some(Event::Suspended),
        (ClientState::Suspended | ClientState::Disconnected, ClientState::Fine) => {
            Some(Event::Reconnected)
        }
        (ClientState::Fine | ClientState::Suspended, ClientState::Disconnected) => {
            Some(Event::Disconnected)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_session_to_end_takes_all_with_it() {
        let publisher = StatePublisher::new(Clock::System);
        let mut events = publisher.bus().subscribe();
        let steps: [fn(&StatePublisher); 8] = [
            |publisher| publisher.set(1, true),
            |publisher| publisher.set(2, true),
            |publisher| publisher.set(1, false),
            |publisher| publisher.set(2, false),
            |publisher| publisher.over(1),
            |publisher| publisher.set(2, true),
            |publisher| publisher.over(2),
            |publisher| publisher.set(3, true),
        ];
        steps.iter().for_each(|step| step(&publisher));
        publisher.bus().close();
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(format!("{event:?}"));
        }
        assert_eq!(seen, ["Suspended", "Reconnected", "Disconnected", "Reconnected"]);
    }
}
