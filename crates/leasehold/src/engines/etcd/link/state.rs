//! Tells of a store that goes and comes back, and of the last session's end.

use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::engine::{Bus, Event};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreState {
    Fine,
    /// No server answers.
    Suspended,
    /// No session is left.
    Over,
}

#[derive(Debug)]
pub(in crate::engines::etcd) struct LinkState {
    bus: Bus,
    state: Mutex<StoreState>,
}

impl LinkState {
    pub(super) fn new(clock: Clock) -> Self {
        Self { bus: Bus::new(clock), state: Mutex::new(StoreState::Fine) }
    }

    pub(in crate::engines::etcd) const fn bus(&self) -> &Bus {
        &self.bus
    }

    /// A server has answered, whatever it said.
    pub(in crate::engines::etcd) fn reached(&self) {
        self.turn(&[StoreState::Suspended], StoreState::Fine, &Event::Reconnected);
    }

    pub(in crate::engines::etcd) fn unreached(&self) {
        self.turn(&[StoreState::Fine], StoreState::Suspended, &Event::Suspended);
    }

    pub(in crate::engines::etcd) fn no_session(&self) {
        self.turn(
            &[StoreState::Fine, StoreState::Suspended],
            StoreState::Over,
            &Event::Disconnected,
        );
    }

    pub(in crate::engines::etcd) fn new_session(&self) {
        self.turn(
            &[StoreState::Suspended, StoreState::Over],
            StoreState::Fine,
            &Event::Reconnected,
        );
    }

    /// Told under the lock, so that listeners hear it in order.
    fn turn(&self, from: &[StoreState], to: StoreState, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if from.contains(&state) {
            *state = to;
            self.bus.publish(event);
        }
    }
}
