//! Looking after leases: signs of life, entries that vanish, sessions that end,
//! fixed leases whose time is up.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Office;
use super::desk::{Desk, Glance, Stage, Task};
use super::endings::remove;
use super::ensemble::{Change, Ensemble, Entry};
use super::session::Session;
use super::view::Note;
use crate::claim::{LeaseId, Place, Refresh, Renewal};
use crate::clock::Moment;
use crate::engine::{Event, Loss};
use crate::error::Error;

/// What Curator writes over an entry to ask its holder to let go.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";
/// A lease that is over sooner is not watched: most are, and a watch is a
/// request.
const SETTLED: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The sessions whose end is waited for.
#[derive(Debug, Default)]
pub(super) struct Attended(Mutex<HashSet<u64>>);

impl Attended {
    fn locked(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Ensemble> Office<E> {
    /// Whether the last sign of life is not fresh any more.
    pub(super) fn is_stale(&self, desk: &Desk) -> bool {
        self.clock.now().since(desk.session.proven()) > desk.session.ttl() / 20
    }

    pub(super) async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let desks = self.desks.glance(tickets.iter().map(|refresh| &refresh.ticket.id));
        let silent = self.prove_all(&desks).await;
        let answers = tickets.iter().zip(desks).map(|(refresh, desk)| {
            let Some(desk) = desk else { return Renewal::Gone };
            match silent.iter().find(|(session, _)| session.id() == desk.session.id()) {
                Some((_, error)) => Renewal::Unknown(error.clone()),
                None => self.renewed(refresh, &desk),
            }
        });
        answers.collect()
    }

    /// One sign of life for each session; those that gave none, and why.
    async fn prove_all(&self, desks: &[Option<Glance>]) -> Vec<(Arc<Session>, Error)> {
        let mut sessions: Vec<&Arc<Session>> =
            desks.iter().flatten().map(|desk| &desk.session).collect();
        sessions.sort_by_key(|session| session.id());
        sessions.dedup_by_key(|session| session.id());
        sessions.retain(|session| !session.is_over());
        let asked: Vec<_> = sessions
            .into_iter()
            .map(|session| (session, self.home.spawn(self.ensemble.prove(Arc::clone(session)))))
            .collect();
        let mut failed = Vec::new();
        for (session, proof) in asked {
            if let Ok(Err(error)) = proof.await {
                failed.push((Arc::clone(session), error));
            }
        }
        failed
    }

    fn renewed(self: &Arc<Self>, refresh: &Refresh, desk: &Glance) -> Renewal {
        let (session, id) = (&desk.session, refresh.ticket.id);
        // What the store has told meanwhile counts.
        if session.is_over() || !self.desks.contains(id) {
            return Renewal::Gone;
        }
        let sent_at = session.proven();
        match desk.stage {
            Stage::Held { .. } => {
                if desk.is_fixed {
                    self.end_at(id, sent_at.after(refresh.ttl));
                }
                Renewal::Held { ttl: session.ttl().min(refresh.ttl), sent_at }
            }
            Stage::Queued { .. } => Renewal::Queued(Place::new(session.ttl(), sent_at)),
            Stage::Asked => Renewal::Gone,
        }
    }

    /// Waits for the end of a session, once.
    pub(super) fn attend(self: &Arc<Self>, session: &Arc<Session>) {
        if !self.attended.locked().insert(session.id()) {
            return;
        }
        let (office, session) = (Arc::clone(self), Arc::clone(session));
        self.home.spawn(async move {
            session.ended().await;
            office.attended.locked().remove(&session.id());
            for id in office.desks.of(&session) {
                office.tell(id, Loss::Disconnected);
            }
        });
    }

    fn tell(&self, id: LeaseId, loss: Loss) {
        self.ensemble.bus().publish(&Event::TicketLost(id, loss));
    }

    /// Watches over the entries of a lease from now on, or after a while if it
    /// has just been granted.
    pub(super) fn watch_over(self: &Arc<Self>, desk: &Desk, settled: bool) {
        let id = desk.ticket.id;
        let pause = if settled { SETTLED } else { Duration::ZERO };
        let tasks = desk.all().map(|entry| {
            let (office, entry) = (Arc::clone(self), entry.clone());
            let task = async move {
                office.clock.sleep_until(office.clock.now().after(pause)).await;
                office.watch_entry(id, &entry).await;
            };
            Arc::new(Task(self.home.spawn(task).abort_handle()))
        });
        let tasks = tasks.collect();
        self.desks.update(id, |desk| desk.tasks = tasks);
    }

    async fn watch_entry(&self, id: LeaseId, entry: &Entry) {
        loop {
            let told = match self.ensemble.watch(Arc::clone(&entry.key)).await {
                Ok(None) => Some(Loss::Gone),
                Ok(Some(watched)) => match self.told(id, &watched.bytes) {
                    None => self.changed(id, watched.change.await),
                    told => told,
                },
                Err(_) => {
                    self.clock.sleep_until(self.clock.now().after(PAUSE)).await;
                    None
                }
            };
            if let Some(loss) = told {
                return self.vanished(id, entry, loss).await;
            }
        }
    }

    /// A change of an entry of ours; how the lease is lost by it.
    fn changed(&self, id: LeaseId, change: Change) -> Option<Loss> {
        match change {
            Change::Gone => Some(Loss::Gone),
            Change::Written(bytes) => self.told(id, &bytes),
            Change::Doubt => None,
        }
    }

    /// What is written on an entry of ours; how the lease is lost by it.
    fn told(&self, id: LeaseId, bytes: &[u8]) -> Option<Loss> {
        if bytes == REVOKE {
            self.ensemble.bus().publish(&Event::RevocationAsked(id));
        }
        Note::read(bytes).map(Note::loss)
    }

    /// Somebody else has removed an entry of ours, or tells us to go.
    async fn vanished(&self, id: LeaseId, entry: &Entry, loss: Loss) {
        let is_ours = |desk: &mut Desk| desk.all().any(|own| own.key == entry.key);
        if self.desks.update(id, is_ours) != Some(true) {
            return;
        }
        // The desk keeps its tasks, and so this one, until all is done.
        let Some(desk) = self.desks.remove(id) else { return };
        self.tell(id, loss);
        self.clear_away(&desk).await;
    }

    /// Removes all that a lease has left, however long it takes.
    async fn clear_away(&self, desk: &Desk) {
        for entry in desk.all() {
            self.see_off(&desk.session, entry).await;
        }
        self.unbind(desk).await;
    }

    /// Removes an entry, however long it takes, unless its session ends first.
    pub(super) async fn see_off(&self, session: &Session, entry: &Entry) {
        while !session.is_over() && self.ensemble.change(vec![remove(entry)]).await.is_err() {
            self.clock.sleep_until(self.clock.now().after(PAUSE)).await;
        }
    }

    /// Ends a fixed lease when its time is up.
    pub(super) fn end_at(self: &Arc<Self>, id: LeaseId, moment: Moment) {
        let office = Arc::clone(self);
        let task = async move {
            office.clock.sleep_until(moment).await;
            if let Some(desk) = office.desks.remove(id) {
                office.clear_away(&desk).await;
            }
        };
        let task = Arc::new(Task(self.home.spawn(task).abort_handle()));
        self.desks.update(id, |desk| desk.fixed = Some(task));
    }
}
