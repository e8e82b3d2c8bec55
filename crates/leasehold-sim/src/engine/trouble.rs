//! What is wrong with the messages just now, and how often it has bitten.

use std::collections::BTreeMap;

use crate::schedule::{Fault, FaultKind, Millis};

/// How often each kind of fault changed the course of a run.
pub(super) type Bites = BTreeMap<FaultKind, u64>;

/// The faults that are on.
#[derive(Debug, Default)]
pub struct Troubles {
    on: Vec<(Fault, Millis)>,
    bites: Bites,
}

impl Troubles {
    /// From now on, and until its time is over.
    pub fn begin(&mut self, fault: Fault, now: Millis) {
        self.on.retain(|(_, until)| *until > now);
        self.on.push((fault, now + fault.span));
    }

    /// Whether this kind is on for that client or server, and by how much; it
    /// then counts as having bitten.
    pub fn bites(&mut self, kind: FaultKind, whom: u8, now: Millis) -> Option<u64> {
        let is_on = |(fault, until): &&(Fault, Millis)| {
            fault.kind == kind && fault.whom == whom && *until > now
        };
        let by = self.on.iter().find(is_on).map(|(fault, _)| fault.by);
        by.inspect(|_| self.bit(kind))
    }

    /// When a fault of this kind is over, if it is on.
    #[must_use]
    pub fn until(&self, kind: FaultKind, whom: u8, now: Millis) -> Option<Millis> {
        let of = |(fault, until): &&(Fault, Millis)| {
            fault.kind == kind && fault.whom == whom && *until > now
        };
        self.on.iter().filter(of).map(|(_, until)| *until).max()
    }

    /// It has bitten once more.
    pub fn bit(&mut self, kind: FaultKind) {
        *self.bites.entry(kind).or_default() += 1;
    }

    /// How often each kind has bitten.
    #[must_use]
    pub const fn bites_so_far(&self) -> &Bites {
        &self.bites
    }
}
