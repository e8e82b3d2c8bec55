//! The connections that statements share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dial::PoolDialer;
use super::slot::{Lent, Slot};
use crate::engines::kit::health::{Health, Report};
use crate::error::Result;

/// How many there are at most where one statement waits for the other.
const FEW: usize = 4;

/// As many as are needed, up to a limit; they stay.
pub(super) struct PoolSlots {
    dialer: Arc<PoolDialer>,
    /// At least one.
    all: Mutex<Vec<Arc<Slot>>>,
}

impl PoolSlots {
    /// Stands when the first of them does.
    pub(super) async fn open(dialer: &Arc<PoolDialer>, health: &Arc<Health>) -> Result<Self> {
        let first = Slot::start(dialer, Some(Report::new(health)));
        first.connection(dialer.settings.connect).await?;
        Ok(Self { dialer: Arc::clone(dialer), all: Mutex::new(vec![first]) })
    }

    /// The one that fewest use, of those that stand. If all are in use, the next
    /// will find one more.
    pub(super) fn choose(&self) -> Lent {
        let mut all = self.all();
        let standing = all.iter().filter(|slot| slot.standing().is_some());
        let best = standing.min_by_key(|slot| slot.users()).map(Arc::clone);
        let wants_more = best.as_ref().is_some_and(|slot| slot.users() > 0);
        if wants_more && all.len() < self.most() {
            all.push(Slot::start(&self.dialer, None));
        }
        Lent::new(best.as_ref().unwrap_or(&all[0]))
    }

    /// One is enough where statements need not wait for each other.
    fn most(&self) -> usize {
        let one_by_one = !self.dialer.settings.family.is_pipelined() || self.dialer.behind_pooler();
        self.dialer.settings.connections.unwrap_or(if one_by_one { FEW } else { 1 })
    }

    pub(super) fn close(&self) {
        self.all().iter().for_each(|slot| slot.close());
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
