//! Where pushes arrive: the grants and the events that a client was not asking for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::claim::{Busy, LeaseId, Predecessor, Verdict, Wake};
use leasehold::engine::{self, Event, Events};
use leasehold::sim::{self, Process};
use leasehold::{Clock, Moment};
use tokio::sync::Notify;

/// What a server says without being asked.
#[derive(Clone, Debug)]
pub enum Push {
    /// The lease was handed to this ticket.
    Granted(LeaseId, u64, Predecessor),
    /// A ticket was lost, or somebody wants it back.
    Event(Event),
}

/// One client's ears.
#[derive(Debug)]
pub(super) struct Bells {
    rings: Mutex<BTreeMap<LeaseId, Bell>>,
    events: engine::Bus,
    /// Whose ears they are: when it hears of something is a matter of its own clock.
    process: Option<Arc<Process>>,
}

#[derive(Debug, Default)]
struct Bell {
    rung: Arc<Notify>,
    /// Kept until somebody waits: as an engine may, which is why a place says
    /// what was granted before it.
    grant: Option<(u64, Predecessor)>,
}

impl Bells {
    /// Those of the process that asks for them.
    pub(super) fn new() -> Self {
        let (rings, events) = (Mutex::default(), engine::Bus::new(Clock::System));
        Self { rings, events, process: sim::current() }
    }

    pub(super) fn events(&self) -> Events {
        self.events.subscribe()
    }

    pub(super) fn ring(&self, push: Push) {
        match push {
            Push::Event(event) => match &self.process {
                Some(process) => process.enter(|| self.events.publish(&event)),
                None => self.events.publish(&event),
            },
            Push::Granted(id, fence, predecessor) => {
                if let Some(bell) = self.rings().get_mut(&id) {
                    bell.grant = Some((fence, predecessor));
                    bell.rung.notify_one();
                }
            }
        }
    }

    /// Who has a place listens from now on; who has a lease does not.
    pub(super) fn answered(&self, id: LeaseId, verdict: &Verdict) {
        match verdict {
            Verdict::Busy(Busy { place: Some(_), .. }) => {
                self.rings().entry(id).or_default();
            }
            _ => self.forget(id),
        }
    }

    /// A push may overtake the reply that tells of the place.
    pub(super) fn expect(&self, id: LeaseId) {
        self.rings().entry(id).or_default();
    }

    pub(super) fn forget(&self, id: LeaseId) {
        self.rings().remove(&id);
    }

    pub(super) async fn wait(&self, id: LeaseId, until: Moment) -> Wake {
        let Some(rung) = self.rings().get(&id).map(|bell| Arc::clone(&bell.rung)) else {
            return Wake::Look;
        };
        let left = until.since(Clock::System.now());
        // Early is allowed, late is not: the client's clock may be a fast one.
        let left = if until == Moment::NEVER { left } else { left * 99 / 100 };
        let _ = tokio::time::timeout(left, rung.notified()).await;
        let grant = self.rings().get_mut(&id).and_then(|bell| bell.grant.take());
        grant.map_or(Wake::Look, |(fence, predecessor)| Wake::Granted { fence, predecessor })
    }

    pub(super) fn close(&self) {
        self.events.close();
        self.rings().clear();
    }

    fn rings(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Bell>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
