//! The connections that statements share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Dialect;
use super::dial::Dialer;
use super::lane::{Lane, Seat};
use crate::engines::health::{Health, Report};
use crate::error::Result;

/// How many there are at most where one statement waits for the other.
const FEW: usize = 4;

/// As many as are needed, up to a limit; they stay.
pub(super) struct Lanes {
    dialer: Arc<Dialer>,
    /// At least one.
    all: Mutex<Vec<Arc<Lane>>>,
}

impl Lanes {
    /// Stands when the first of them does.
    pub(super) async fn open(dialer: &Arc<Dialer>, health: &Arc<Health>) -> Result<Self> {
        let first = Lane::start(dialer, Some(Report::new(health)));
        let until = dialer.clock.now().after(dialer.settings.connect);
        first.wire(until).await?;
        Ok(Self { dialer: Arc::clone(dialer), all: Mutex::new(vec![first]) })
    }

    /// The one that fewest use, of those that stand. If all are in use, the next
    /// will find one more.
    pub(super) fn choose(&self) -> Seat {
        let mut all = self.all();
        let standing = all.iter().filter(|lane| lane.standing().is_some());
        let best = standing.min_by_key(|lane| lane.users()).map(Arc::clone);
        let wants_more = best.as_ref().is_some_and(|lane| lane.users() > 0);
        if wants_more && all.len() < self.most() {
            all.push(Lane::start(&self.dialer, None));
        }
        Seat::new(best.as_ref().unwrap_or(&all[0]))
    }

    /// One is enough where statements need not wait for each other.
    fn most(&self) -> usize {
        let one_by_one = self.dialer.settings.dialect == Dialect::Mysql || self.dialer.is_pooled();
        self.dialer.settings.connections.unwrap_or(if one_by_one { FEW } else { 1 })
    }

    pub(super) fn close(&self) {
        self.all().iter().for_each(|lane| lane.close());
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
