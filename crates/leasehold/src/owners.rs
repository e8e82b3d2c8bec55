//! Who may re-enter what: the leases that owners of this process hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::claim::OwnerId;
use crate::hold::Hold;
use crate::name::Name;

#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<(OwnerId, Name), Weak<Hold>>>);

impl Owners {
    /// The lease that `owner` holds on `name`, with one more share in it.
    pub(crate) fn find(&self, owner: OwnerId, name: &Name) -> Option<Arc<Hold>> {
        let hold = self.map().get(&(owner, name.clone()))?.upgrade()?;
        hold.share().then_some(hold)
    }

    /// Lets the owner of `hold`, if it has one, re-enter it.
    pub(crate) fn enter(&self, hold: &Arc<Hold>) {
        if let Some(owner) = hold.owner {
            self.map().insert((owner, hold.name.clone()), Arc::downgrade(hold));
        }
    }

    /// Forgets `hold`, unless its owner has another lease on the name by now.
    pub(crate) fn leave(&self, hold: &Arc<Hold>) {
        let Some(owner) = hold.owner else { return };
        let key = (owner, hold.name.clone());
        let mut map = self.map();
        if map.get(&key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(hold))) {
            map.remove(&key);
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<(OwnerId, Name), Weak<Hold>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
