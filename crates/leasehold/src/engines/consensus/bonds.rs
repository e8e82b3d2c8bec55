//! Bonds: what a value is bound to, and those to leases of other clients. Who has
//! such a lease does not know what others have bound to it: who has stored the value
//! sees to it that it goes with the lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::leases::Task;
use crate::name::Name;

/// The entry that a value is bound to: its key and its fence.
pub(super) type Bond = (Arc<str>, u64);

/// Who sees to a value, for each that this client has bound to the lease of another.
#[derive(Debug, Default)]
pub(super) struct ForeignBonds(Mutex<HashMap<Name, (Bond, Task)>>);

impl ForeignBonds {
    /// Has the value seen to, unless it is: `see` begins that. Whoever saw to an
    /// earlier bond of it stops.
    pub(super) fn see_to(&self, name: &Name, bond: &Bond, see: impl FnOnce() -> Task) {
        let mut bonds = self.locked();
        if bonds.get(name).is_none_or(|(other, _)| other != bond) {
            bonds.insert(name.clone(), (bond.clone(), see()));
        }
    }

    /// A value has gone with what it was bound to.
    pub(super) fn remove(&self, name: &Name, bond: &Bond) {
        let mut bonds = self.locked();
        if bonds.get(name).is_some_and(|(other, _)| other == bond) {
            bonds.remove(name);
        }
    }

    pub(super) fn clear(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Name, (Bond, Task)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
