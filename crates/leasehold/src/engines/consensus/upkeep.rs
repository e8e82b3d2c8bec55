//! Looking after leases: signs of life, entries that vanish, sessions that end,
//! fixed leases whose time is up.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Office;
use super::card::Card;
use super::desk::{Desk, Stage, Task};
use super::endings::remove;
use super::ensemble::{Change, Ensemble, Entry, Step};
use super::mark::Mark;
use super::session::Session;
use crate::claim::{LeaseId, Place, Refresh, Renewal};
use crate::clock::{Moment, wall_micros};
use crate::engine::{Event, Loss};
use crate::error::Error;

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
        let (ttl, proven) = desk.session.known();
        self.clock.now().since(proven) > ttl / 20
    }

    pub(super) async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let sessions = self.desks.sessions(tickets.iter().map(|refresh| &refresh.ticket.id));
        let silent = self.prove_all(&sessions).await;
        let answers = tickets.iter().zip(sessions).map(|(refresh, session)| {
            let Some(session) = session else { return Renewal::Gone };
            match silent.iter().find(|(other, _)| other.id() == session.id()) {
                Some((_, error)) => Renewal::Unknown(error.clone()),
                None => self.renewed(refresh, &session),
            }
        });
        answers.collect()
    }

    /// One sign of life for each session; those that gave none, and why.
    async fn prove_all(&self, sessions: &[Option<Arc<Session>>]) -> Vec<(Arc<Session>, Error)> {
        let mut sessions: Vec<&Arc<Session>> = sessions.iter().flatten().collect();
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

    /// What is kept of a lease, as it stands by now: its turn may have come while
    /// the proof was under way, or its entries may have gone.
    fn renewed(self: &Arc<Self>, refresh: &Refresh, session: &Session) -> Renewal {
        let id = refresh.ticket.id;
        let stands = |desk: &mut Desk| {
            let same = desk.session.id() == session.id() && !session.is_over();
            same.then(|| (desk.stage.clone(), desk.fixed_for.is_some()))
        };
        let stands = self.desks.update(id, stands).flatten();
        let (ttl, sent_at) = session.known();
        let kept = match stands {
            Some((Stage::Queued { .. }, _)) => return Renewal::Queued(Place::new(ttl, sent_at)),
            Some((Stage::Held { .. }, false)) => Some(refresh.ttl),
            Some((Stage::Held { .. }, true)) => {
                let end = self.end_at(id, sent_at.after(refresh.ttl));
                end.map(|end| end.since(sent_at))
            }
            Some((Stage::Asked, _)) | None => None,
        };
        kept.map_or(Renewal::Gone, |kept| self.told_of(id, ttl.min(kept), sent_at))
    }

    /// Its holder is told that it is kept for so long.
    fn told_of(&self, id: LeaseId, ttl: Duration, sent_at: Moment) -> Renewal {
        match self.desks.update(id, |desk| desk.told = sent_at.after(ttl)) {
            Some(()) => Renewal::Held { ttl, sent_at },
            None => Renewal::Gone,
        }
    }

    /// Waits for the end of a session, once, and for less than its whole time.
    pub(super) fn attend(self: &Arc<Self>, session: &Arc<Session>) {
        if !self.attended.locked().insert(session.id()) {
            return;
        }
        let (office, session) = (Arc::clone(self), Arc::clone(session));
        self.home.spawn(async move {
            let mut news = session.news();
            while news.is_cut().await {
                office.shorten(&session);
            }
            office.attended.locked().remove(&session.id());
            for id in office.desks.of(&session) {
                office.tell(id, Loss::Disconnected);
            }
        });
    }

    /// The store keeps a session for less than it has said: so do all who hold or
    /// wait on it, before their next renewal says so.
    fn shorten(&self, session: &Session) {
        let (ttl, sent_at) = session.known();
        for id in self.desks.of(session) {
            self.desks.update(id, |desk| desk.told = desk.told.min(sent_at.after(ttl)));
            self.ensemble.bus().publish(&Event::Kept(id, Place::new(ttl, sent_at)));
        }
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
        let mark = Card::read(bytes).mark?;
        if mark == Mark::Asked {
            self.ensemble.bus().publish(&Event::RevocationAsked(id));
        }
        mark.loss()
    }

    /// Somebody else has removed an entry of ours, or tells us to go.
    async fn vanished(&self, id: LeaseId, entry: &Entry, loss: Loss) {
        // A key may be made anew by the same lease: that one is another entry. And
        // one that is about to be converted goes, for another one.
        let same = |own: &Entry| own.key == entry.key && own.fence == entry.fence;
        let in_doubt = |desk: &Desk| loss == Loss::Gone && desk.is_doubtful();
        let is_ours = |desk: &mut Desk| !in_doubt(desk) && desk.all().any(same);
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

    /// Ends a fixed lease then, or later if that was agreed before: when it ends.
    /// `None` if it has ended.
    pub(super) fn end_at(self: &Arc<Self>, id: LeaseId, moment: Moment) -> Option<Moment> {
        self.desks.update(id, |desk| match &desk.fixed {
            Some((end, _)) if *end >= moment => *end,
            _ => {
                desk.fixed = Some((moment, self.end_later(id, moment)));
                moment
            }
        })
    }

    fn end_later(self: &Arc<Self>, id: LeaseId, moment: Moment) -> Arc<Task> {
        let office = Arc::clone(self);
        let task = async move {
            office.clock.sleep_until(moment).await;
            // It may have been prolonged in the very last moment.
            match office.desks.remove_ending(id, moment) {
                Some(desk) if desk.closes() => office.close(desk).await,
                Some(desk) => office.clear_away(&desk).await,
                None => {}
            }
        };
        Arc::new(Task(self.home.spawn(task).abort_handle()))
    }

    /// A lease was cut off: its entries stay for as long as its delay.
    pub(super) async fn close(&self, desk: Desk) {
        let now = self.clock.now();
        let until = desk.told.min(now).after(desk.session.delay());
        desk.session.keep_closed(until);
        let left = u64::try_from(until.since(now).as_micros()).unwrap_or(u64::MAX);
        let mark = Mark::Closed { until: wall_micros().saturating_add(left) };
        let write = |entry: &Entry| {
            let card = entry.card.clone().unwrap_or_default().marked(mark.clone());
            let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap_or_default());
            Step::Write { key, fence, bytes: card.write() }
        };
        // Without the mark the name looks held, and is as closed.
        let _ = self.ensemble.change(desk.entries.iter().map(write).collect()).await;
        self.unbind(&desk).await;
        self.clock.sleep_until(until).await;
        self.clear_away(&desk).await;
    }
}
