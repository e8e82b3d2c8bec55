//! Tells of connections that go and come back.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::engine::{Bus, Event};

/// How many of the connections for commands are down.
pub(in crate::engines) struct Health {
    bus: Bus,
    down: Mutex<usize>,
}

impl Health {
    pub(in crate::engines) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { bus: Bus::new(clock), down: Mutex::new(0) })
    }

    pub(in crate::engines) const fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The first to go suspends.
    fn fell(&self) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        *down += 1;
        if *down == 1 {
            self.bus.publish(&Event::Suspended);
        }
    }

    /// The last to come back ends that.
    fn rose(&self) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        *down -= 1;
        if *down == 0 {
            self.bus.publish(&Event::Reconnected);
        }
    }
}

/// What one connection tells. One that is not wanted any more counts as up.
pub(in crate::engines) struct Report {
    health: Arc<Health>,
    down: Mutex<bool>,
}

impl Report {
    pub(in crate::engines) fn new(health: &Arc<Health>) -> Self {
        Self { health: Arc::clone(health), down: Mutex::new(false) }
    }

    pub(in crate::engines) fn set(&self, up: bool) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        match (std::mem::replace(&mut *down, !up), !up) {
            (false, true) => self.health.fell(),
            (true, false) => self.health.rose(),
            _ => {}
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.set(true);
    }
}
