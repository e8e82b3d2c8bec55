//! Looking after leases: signs of life, entries that vanish, sessions that end,
//! fixed leases whose time is up.

use std::sync::Arc;
use std::time::Duration;

use super::client::ConsensusClient;
use super::endings::remove;
use super::ensemble::{Departure, Ensemble, KeyChange, QueueEntry, QueuePart, TxnStep};
use super::leases::{LeaseStage, OwnLease, Task};
use super::mark::EntryMark;
use super::metadata::Metadata;
use super::session::Session;
use crate::claim::{LeaseId, Place, Refresh, Renewal};
use crate::clock::{Moment, wall_micros};
use crate::engine::{Event, Loss};
use crate::engines::kit::backoff::Backoff;
use crate::error::Error;

/// A lease that is over sooner is not watched: most are, and a watch is a
/// request.
pub(super) const SETTLED: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The longest, while it fails again and again.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The longest while others wait for this very entry to go.
const PAUSE_WAITED_FOR: Duration = Duration::from_secs(1);

impl<E: Ensemble> ConsensusClient<E> {
    /// Whether the last sign of life is not fresh any more.
    pub(super) fn is_stale(&self, lease: &OwnLease) -> bool {
        let (ttl, proven) = lease.session.known();
        self.clock.now().since(proven) > ttl / 20
    }

    pub(super) async fn renew(self: Arc<Self>, tickets: Vec<Refresh>) -> Vec<Renewal> {
        let sessions = self.leases.sessions(tickets.iter().map(|refresh| &refresh.ticket.id));
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
        let stands = |lease: &mut OwnLease| {
            let same = lease.session.id() == session.id() && !session.is_over();
            same.then(|| (lease.stage.clone(), lease.fixed_for.is_some()))
        };
        let stands = self.leases.update(id, stands).flatten();
        let (ttl, sent_at) = session.known();
        let kept = match stands {
            Some((LeaseStage::Queued { .. }, _)) => {
                return Renewal::Queued(Place::new(ttl, sent_at));
            }
            Some((LeaseStage::Held { .. }, false)) => Some(refresh.ttl),
            Some((LeaseStage::Held { .. }, true)) => {
                let end = self.end_at(id, sent_at.after(refresh.ttl));
                end.map(|end| end.since(sent_at))
            }
            Some((LeaseStage::Asked, _)) | None => None,
        };
        kept.map_or(Renewal::Gone, |kept| self.told_of(id, ttl.min(kept), sent_at))
    }

    /// Its holder is told that it is kept for so long.
    fn told_of(&self, id: LeaseId, ttl: Duration, sent_at: Moment) -> Renewal {
        match self.leases.update(id, |lease| lease.told = sent_at.after(ttl)) {
            Some(()) => Renewal::Held { ttl, sent_at },
            None => Renewal::Gone,
        }
    }

    /// Waits for the end of a session, once, and for less than its whole time.
    pub(super) fn attend(self: &Arc<Self>, session: &Arc<Session>) {
        if !self.attended.locked().insert(session.id()) {
            return;
        }
        let (client, session) = (Arc::clone(self), Arc::clone(session));
        self.home.spawn(async move {
            let mut news = session.news();
            while news.is_cut().await {
                client.shorten(&session);
            }
            client.attended.locked().remove(&session.id());
            for id in client.leases.of(&session) {
                client.tell(id, Loss::Disconnected);
            }
        });
    }

    /// The store keeps a session for less than it has said: so do all who hold or
    /// wait on it, before their next renewal says so.
    fn shorten(&self, session: &Session) {
        let (ttl, sent_at) = session.known();
        for id in self.leases.of(session) {
            self.leases.update(id, |lease| lease.told = lease.told.min(sent_at.after(ttl)));
            self.ensemble.bus().publish(&Event::Kept(id, Place::new(ttl, sent_at)));
        }
    }

    fn tell(&self, id: LeaseId, loss: Loss) {
        self.ensemble.bus().publish(&Event::TicketLost(id, loss));
    }

    /// Watches over the entries of a lease from now on, or after a while if it
    /// has just been granted.
    pub(super) fn watch_over(self: &Arc<Self>, lease: &OwnLease, settled: bool) {
        let id = lease.ticket.id;
        let pause = if settled { SETTLED } else { Duration::ZERO };
        let tasks = lease.all().map(|entry| {
            let (client, entry) = (Arc::clone(self), entry.clone());
            let task = async move {
                client.clock.sleep_until(client.clock.now().after(pause)).await;
                client.watch_entry(id, &entry).await;
            };
            Arc::new(Task(self.home.spawn(task).abort_handle()))
        });
        let tasks = tasks.collect();
        self.leases.update(id, |lease| lease.tasks = tasks);
    }

    async fn watch_entry(&self, id: LeaseId, entry: &QueueEntry) {
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
    fn changed(&self, id: LeaseId, change: KeyChange) -> Option<Loss> {
        match change {
            KeyChange::Gone => Some(Loss::Gone),
            KeyChange::Written(bytes) => self.told(id, &bytes),
            KeyChange::Doubt => None,
        }
    }

    /// What is written on an entry of ours; how the lease is lost by it.
    fn told(&self, id: LeaseId, bytes: &[u8]) -> Option<Loss> {
        let mark = Metadata::read(bytes).mark?;
        if mark == EntryMark::Asked {
            self.ensemble.bus().publish(&Event::RevocationAsked(id));
        }
        mark.loss()
    }

    /// Somebody else has removed an entry of ours, or tells us to go.
    async fn vanished(&self, id: LeaseId, entry: &QueueEntry, loss: Loss) {
        // A key may be made anew by the same lease: that one is another entry. And
        // one that is about to be converted goes, for another one.
        let same = |own: &QueueEntry| own.key == entry.key && own.fence == entry.fence;
        let in_doubt = |lease: &OwnLease| loss == Loss::Gone && lease.is_doubtful();
        let is_ours = |lease: &mut OwnLease| !in_doubt(lease) && lease.all().any(same);
        if self.leases.update(id, is_ours) != Some(true) {
            return;
        }
        // The lease keeps its tasks, and so this one, until all is done.
        let Some(lease) = self.leases.remove(id) else { return };
        let may_be_over = loss == Loss::Gone;
        self.tell(id, loss);
        if may_be_over {
            self.find_out(&lease.session).await;
        }
        self.clear_away(&lease).await;
    }

    /// Whether a session is over: of thousands that went with it, the first to have a
    /// turn finds out for all. They have nothing left to clear away.
    async fn find_out(&self, session: &Arc<Session>) {
        let _turn = self.cleaning.acquire().await;
        if !session.is_over() {
            let _ = self.ensemble.prove(Arc::clone(session)).await;
        }
    }

    /// Removes all that a lease has left, however long it takes, whenever its turn has
    /// come: thousands may end at once, and others want to be served meanwhile.
    async fn clear_away(&self, lease: &OwnLease) {
        for entry in lease.all() {
            self.clear_entry(&lease.session, entry, lease.departure(entry)).await;
        }
        // Whoever waits joins again under the same id.
        if lease.fence().is_some() {
            self.keep_out(lease, &lease.stragglers).await;
        }
        let _turn = self.cleaning.acquire().await;
        self.unbind(lease).await;
    }

    /// Removes an entry in turns: who pauses leaves the turn to others, whose entries
    /// may be easier to remove.
    async fn clear_entry(&self, session: &Session, entry: &QueueEntry, departure: Departure) {
        let gone = vec![remove(entry, departure)];
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            let turn = self.cleaning.acquire().await;
            if self.has_gone(session, &gone).await {
                return;
            }
            drop(turn);
            backoff.sleep(&self.clock).await;
        }
    }

    /// Removes an entry, however long it takes, unless its session ends first.
    pub(super) async fn see_off(
        &self,
        session: &Session,
        entry: &QueueEntry,
        departure: Departure,
    ) {
        let gone = vec![remove(entry, departure)];
        let mut backoff = Backoff::new(PAUSE, PAUSE_WAITED_FOR);
        while !self.has_gone(session, &gone).await {
            backoff.sleep(&self.clock).await;
        }
    }

    /// Sees to it that no join of a lease that was overtaken leaves anything in these
    /// lines, however long it takes, unless the session ends first.
    pub(super) async fn keep_out(&self, lease: &OwnLease, parts: &[QueuePart]) {
        let mut backoff = Backoff::new(PAUSE, PAUSE_WAITED_FOR);
        while !lease.session.is_over() {
            match self.withdraw(&lease.ticket, parts, Some(&lease.session)).await {
                Ok(_) => return,
                Err(_) => backoff.sleep(&self.clock).await,
            }
        }
    }

    async fn has_gone(&self, session: &Session, gone: &[TxnStep]) -> bool {
        session.is_over() || self.ensemble.change(gone.to_vec()).await.is_ok()
    }

    /// Ends a fixed lease then, or later if that was agreed before: when it ends.
    /// `None` if it has ended.
    pub(super) fn end_at(self: &Arc<Self>, id: LeaseId, moment: Moment) -> Option<Moment> {
        self.leases.update(id, |lease| match &lease.fixed {
            Some((end, _)) if *end >= moment => *end,
            _ => {
                lease.fixed = Some((moment, self.end_later(id, moment)));
                moment
            }
        })
    }

    fn end_later(self: &Arc<Self>, id: LeaseId, moment: Moment) -> Arc<Task> {
        let client = Arc::clone(self);
        let task = async move {
            client.clock.sleep_until(moment).await;
            // It may have been prolonged in the very last moment.
            match client.leases.remove_ending(id, moment) {
                Some(lease) if lease.closes() => client.close(lease).await,
                Some(lease) => client.clear_away(&lease).await,
                None => {}
            }
        };
        Arc::new(Task(self.home.spawn(task).abort_handle()))
    }

    /// A lease was cut off: its entries stay for as long as its delay.
    pub(super) async fn close(&self, lease: OwnLease) {
        let now = self.clock.now();
        let until = lease.told.min(now).after(lease.session.delay());
        lease.session.keep_closed(until);
        let left = u64::try_from(until.since(now).as_micros()).unwrap_or(u64::MAX);
        let mark = EntryMark::Closed { until: wall_micros().saturating_add(left) };
        let write = |entry: &QueueEntry| {
            let metadata = entry.metadata.clone().unwrap_or_default().marked(mark.clone());
            let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap_or_default());
            TxnStep::Write { key, fence, bytes: metadata.write() }
        };
        // What others read is left alone.
        let is_ours = |entry: &&QueueEntry| {
            entry.metadata.as_ref().is_none_or(|metadata| metadata.bare.is_none())
        };
        let marks: Vec<_> = lease.entries.iter().filter(is_ours).map(write).collect();
        if !marks.is_empty() {
            // Without the mark the name looks held, and is as closed.
            let _ = self.ensemble.change(marks).await;
        }
        self.unbind(&lease).await;
        self.clock.sleep_until(until).await;
        self.clear_away(&lease).await;
    }
}
