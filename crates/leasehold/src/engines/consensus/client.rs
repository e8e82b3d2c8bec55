//! The client: a store, and what is known of the leases in it. The verbs are in
//! the other files, each with its own.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::attended::Attended;
use super::bonds::ForeignBonds;
use super::ensemble::Ensemble;
use super::leases::OwnLeases;
use super::record_format::RecordFormat;
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
    /// Whose turn it is to clear away what leases have left that ended by
    /// themselves.
    pub(super) cleaning: Semaphore,
    /// How records lie in their values.
    pub(super) format: RecordFormat,
    /// The bonds to leases of other clients, as far as we see to them.
    pub(super) bonds: ForeignBonds,
}

/// How many clear away at a time.
const CLEANING: usize = 8;

impl<E: Ensemble> ConsensusClient<E> {
    /// Called on home.
    pub(super) fn new(ensemble: E, clock: Clock) -> Arc<Self> {
        let raw = ensemble.profile().raw_records;
        Arc::new(Self {
            format: if raw { RecordFormat::Raw } else { RecordFormat::Own },
            ensemble,
            clock,
            home: Handle::current(),
            leases: OwnLeases::default(),
            attended: Attended::default(),
            cleaning: Semaphore::new(CLEANING),
            bonds: ForeignBonds::default(),
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
