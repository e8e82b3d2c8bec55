//! The client: a store, and what is known of the leases in it. The verbs are in
//! the other files, each with its own.

use std::sync::Arc;

use super::attended::Attended;
use super::ensemble::Ensemble;
use super::leases::OwnLeases;
use crate::claim::Mode;
use crate::clock::Clock;
use crate::home::Handle;

/// The store, and what is known of each lease of this client.
#[derive(Debug)]
pub(super) struct ConsensusClient<E: Ensemble> {
    pub(super) ensemble: E,
    pub(super) clock: Clock,
    pub(super) home: Handle,
    pub(super) leases: OwnLeases,
    /// The sessions whose end is waited for.
    pub(super) attended: Attended,
}

impl<E: Ensemble> ConsensusClient<E> {
    /// Called on home.
    pub(super) fn new(ensemble: E, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            ensemble,
            clock,
            home: Handle::current(),
            leases: OwnLeases::default(),
            attended: Attended::default(),
        })
    }

    /// How a claim is carried out, which may not be what it is called.
    pub(super) fn way(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Exclusive if self.ensemble.mutex_is_semaphore() => {
                Mode::Permits { take: 1, of: 1 }
            }
            mode => mode,
        }
    }
}
