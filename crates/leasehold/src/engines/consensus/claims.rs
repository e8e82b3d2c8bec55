//! Claims: into the line.

use std::sync::Arc;

use super::client::ConsensusClient;
use super::ensemble::{
    Ensemble, Entered, EntryAhead, Joined, Newcomer, QueueEntry, QueueId, QueuePart, StoredValue,
};
use super::leases::{LeaseStage, OwnLease};
use super::metadata::Metadata;
use super::queue::{QueueStanding, standing};
use super::records::FoundRecord;
use crate::claim::{
    Busy, Claim, Grant, Holder, LeaseId, Mode, Place, Renewal, Stance, Ticket, Verdict, Wants,
};
use crate::engine::state::Answer;
use crate::error::{Effect, Error, ErrorKind, Result};

/// How often a claim joins again whose entry somebody removes at once.
pub(super) const ATTEMPTS: usize = 5;

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn acquire(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        let verdict = self.ask(&claim).await;
        // Whatever failed: what it has in line has to be given back.
        verdict.map_err(|error| match self.leases.get(claim.ticket.id) {
            Some(lease) if lease.has_something() => error.unknown(),
            _ => error,
        })
    }

    async fn ask(self: &Arc<Self>, claim: &Claim) -> Result<Verdict> {
        self.check_candidate(claim)?;
        let lease = self.desk_for(claim).await?;
        if lease.ticket.mode != claim.ticket.mode {
            return Err(other_kind(lease.ticket.mode));
        }
        let unread = |verdict| (verdict, None);
        let (verdict, read) = match (lease.fence(), self.way(claim.ticket.mode)) {
            (Some(fence), _) => self.grant(&lease, claim, fence).map(unread)?,
            (None, Mode::Permits { take, of }) => {
                self.ask_for_permits(claim, lease, take, of).await.map(unread)?
            }
            (None, _) => self.ask_in_queue(claim, lease).await?,
        };
        let verdict = self.with_record(verdict, claim, read).await?;
        Ok(self.as_kept(verdict, claim.ticket.id))
    }

    /// What other software elects in has no permits.
    fn check_candidate(&self, claim: &Claim) -> Result<()> {
        let bare = self.ensemble.profile().candidates_in_entries;
        if claim.candidate.is_none() || !bare || !self.ensemble.mutex_is_semaphore() {
            return Ok(());
        }
        let message = "with ?names=raw&mutex=semaphore there are no elections: nobody else \
                       knows them there; open the URL without mutex=semaphore for them";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// A verdict as it stands now: a server that keeps sessions for less may have
    /// said so while the record was read, and whoever has no lease yet is not
    /// told of that.
    fn as_kept(&self, mut verdict: Verdict, id: LeaseId) -> Verdict {
        if let Verdict::Granted(grant) = &mut verdict {
            self.leases.update(id, |lease| {
                let (ttl, sent_at) = lease.session.known();
                if sent_at.after(ttl) < grant.sent_at.after(grant.ttl) {
                    (grant.ttl, grant.sent_at) = (ttl, sent_at);
                    lease.told = sent_at.after(ttl);
                }
            });
        }
        verdict
    }

    /// The lease of a claim. One whose session is over starts anew: its entries
    /// went with the session.
    async fn desk_for(self: &Arc<Self>, claim: &Claim) -> Result<OwnLease> {
        let known = self.leases.get(claim.ticket.id);
        if let Some(lease) = known.filter(|lease| !lease.session.is_over()) {
            return Ok(lease);
        }
        let session = self.ensemble.session(claim.ttl, claim.lock_delay).await?;
        self.attend(&session);
        let lease = OwnLease::new(claim, session);
        self.leases.put(lease.clone());
        Ok(lease)
    }

    /// The verdict, and what was read of the record on the way.
    async fn ask_in_queue(self: &Arc<Self>, claim: &Claim, mut lease: OwnLease) -> Result<Asked> {
        let mut wants = claim.wants;
        for _ in 0..ATTEMPTS {
            let (found, read) = self.see(claim, &mut lease, wants).await?;
            let Some(mine) = lease.entries.first() else {
                if let Some(verdict) = self.outside(claim, &found, read.flatten(), wants).await? {
                    return Ok((verdict, None));
                }
                wants = Wants::LeaseAndRecord;
                continue;
            };
            let verdict = match standing(&found, mine) {
                QueueStanding::Holds => self.hold(claim, lease).await?,
                QueueStanding::Behind(ahead) => self.stand(claim, Some(ahead), &found).await?,
                QueueStanding::OtherKind(mode) => self.refuse(claim, mode).await?,
                // Somebody has removed it: to the end of the line.
                QueueStanding::Absent => {
                    lease.entries.clear();
                    continue;
                }
            };
            return Ok((verdict, read));
        }
        Err(removed())
    }

    /// The queue: as it is, or as one finds it who joins.
    async fn see(
        &self,
        claim: &Claim,
        lease: &mut OwnLease,
        wants: Wants,
    ) -> Result<(Vec<QueueEntry>, Read)> {
        let line = QueueId::of(&claim.ticket.name, QueuePart::Queue);
        if let Some(mine) = lease.entries.first() {
            let found = self.ensemble.list(line, Some(mine.clone())).await?;
            self.move_up(lease, &found);
            return Ok((found, None));
        }
        let joined = self.join(claim, lease, line, claim.ticket.mode, wants).await?;
        Ok((joined.line, joined.value))
    }

    /// Takes over what a line tells of one's own place in it.
    pub(super) fn move_up(&self, lease: &mut OwnLease, line: &[QueueEntry]) {
        lease.moved_up(line);
        self.leases.update(lease.ticket.id, |known| known.moved_up(line));
    }

    /// Nothing was written: because of a record that will do, or because somebody
    /// was in line. `None` if the record has outlived what it was bound to, and
    /// stands in nobody's way.
    async fn outside(
        &self,
        claim: &Claim,
        found: &[QueueEntry],
        value: Option<StoredValue>,
        wants: Wants,
    ) -> Result<Option<Verdict>> {
        let instead = value.filter(|_| wants == Wants::RecordOrLease);
        if instead.is_none() {
            return self.turned_away(claim, found).await.map(Some);
        }
        let Some(record) = self.living(instead).await? else { return Ok(None) };
        self.leave(claim.ticket.id).await?;
        Ok(Some(Verdict::Busy(Busy::found(record))))
    }

    /// Somebody was in line.
    async fn turned_away(&self, claim: &Claim, found: &[QueueEntry]) -> Result<Verdict> {
        self.leave(claim.ticket.id).await?;
        let other = found.iter().find(|entry| !entry.mode.same_kind(claim.ticket.mode));
        match other {
            Some(other) => Err(other_kind(other.mode)),
            None => Ok(Verdict::Busy(self.busy(found).await)),
        }
    }

    /// Joins a line: the only way into one. From the moment it is sent until all
    /// of it is answered nobody knows what it leaves there, and whatever fails on
    /// the way leaves that doubt.
    pub(super) async fn join(
        &self,
        claim: &Claim,
        lease: &mut OwnLease,
        line: QueueId,
        mode: Mode,
        wants: Wants,
    ) -> Result<Joined> {
        let (id, part) = (claim.ticket.id, line.part);
        let newcomer = self.newcomer(claim, lease, part, mode, wants);
        let (metadata, again) = (newcomer.metadata.clone(), newcomer.again);
        if again && self.ensemble.may_overtake() {
            lease.expect_straggler(part);
        }
        if !self.doubt(lease, part, true) {
            // It went with entries that somebody has removed, and is needed again.
            self.leases.put(lease.clone());
        }
        let mut joined = match self.ensemble.join(Arc::clone(&lease.session), line, newcomer).await
        {
            Ok(Entered(found)) => found.await.map_err(Error::unknown)?,
            Err(error) => {
                self.doubt(lease, part, again || error.effect() == Effect::Unknown);
                return Err(error);
            }
        };
        joined.mine.iter_mut().for_each(|entry| entry.metadata = Some(metadata.clone()));
        match part {
            QueuePart::Door => lease.door = joined.mine.first().cloned(),
            QueuePart::Queue | QueuePart::Permits => lease.entries.clone_from(&joined.mine),
        }
        self.leases.update(id, |known| {
            (known.door, known.entries) = (lease.door.clone(), lease.entries.clone());
        });
        self.doubt(lease, part, false);
        match joined.stranger {
            None => Ok(joined),
            Some(mode) => {
                self.leave(id).await?;
                Err(other_kind(mode))
            }
        }
    }

    fn newcomer(
        &self,
        claim: &Claim,
        lease: &OwnLease,
        part: QueuePart,
        mode: Mode,
        wants: Wants,
    ) -> Newcomer {
        let alone = claim.stance == Stance::Try && matches!(mode, Mode::Exclusive | Mode::Write);
        let bare = self.ensemble.profile().candidates_in_entries;
        Newcomer {
            id: claim.ticket.id,
            mode,
            metadata: Metadata::of(claim, self.way(claim.ticket.mode), bare),
            only_if_empty: alone && part == QueuePart::Queue,
            again: lease.doubts.contains(&part),
            wants,
            candidate: claim.candidate.is_some(),
        }
    }

    /// Whether more may be left in a line than is known here; whether the lease is
    /// still there.
    fn doubt(&self, lease: &mut OwnLease, part: QueuePart, doubtful: bool) -> bool {
        lease.doubts.retain(|other| *other != part);
        lease.doubts.extend(doubtful.then_some(part));
        let noted = |known: &mut OwnLease| {
            known.doubts.clone_from(&lease.doubts);
            lease.stragglers.iter().for_each(|part| known.expect_straggler(*part));
        };
        self.leases.update(lease.ticket.id, noted).is_some()
    }

    /// It is at the front: ours, unless its entries have gone meanwhile.
    pub(super) async fn hold(self: &Arc<Self>, claim: &Claim, lease: OwnLease) -> Result<Verdict> {
        let fence = fence(&lease.entries);
        if !claim.renewed && self.is_stale(&lease) {
            // Nobody will renew it, so it starts with all its time.
            self.ensemble.prove(Arc::clone(&lease.session)).await?;
        }
        let held = |now: &mut OwnLease| now.stage = LeaseStage::Held { fence };
        if self.leases.update(claim.ticket.id, held).is_none() {
            return Err(removed());
        }
        self.watch_over(&lease, true);
        if let (true, Some(mine)) = (lease.waited, lease.entries.first()) {
            self.announce(&lease, mine.clone());
        }
        if let Some(span) = lease.fixed_for {
            self.end_at(claim.ticket.id, self.clock.now().after(span));
        }
        self.grant(&lease, claim, fence)
    }

    /// A lease, unless its session has ended meanwhile.
    fn grant(&self, lease: &OwnLease, claim: &Claim, fence: u64) -> Result<Verdict> {
        if lease.session.is_over() {
            let text = "the session ended before the lease was told; it is asked for again";
            return Err(Error::new(ErrorKind::Unavailable, text).unknown());
        }
        let (ttl, sent_at) = lease.session.known();
        let ttl = ttl.min(claim.ttl);
        self.leases.update(claim.ticket.id, |lease| lease.told = sent_at.after(ttl));
        Ok(Verdict::Granted(Grant::new(fence, ttl, sent_at)))
    }

    /// It is not at the front: it stands in line, or leaves.
    pub(super) async fn stand(
        self: &Arc<Self>,
        claim: &Claim,
        ahead: Option<EntryAhead>,
        line: &[QueueEntry],
    ) -> Result<Verdict> {
        let id = claim.ticket.id;
        let mut busy = self.busy(line).await;
        if claim.stance == Stance::Try {
            self.leave(id).await?;
            return Ok(Verdict::Busy(busy));
        }
        let queued = self.leases.update(id, |lease| {
            let (ttl, sent_at) = lease.session.known();
            lease.waited |= ahead.is_some();
            lease.stage = LeaseStage::Queued { ahead };
            lease.told = sent_at.after(ttl);
            (lease.clone(), Place::new(ttl, sent_at))
        });
        if let Some((lease, place)) = queued {
            self.watch_over(&lease, false);
            busy.place = Some(place);
        }
        Ok(Verdict::Busy(busy))
    }

    /// Who is in the way. That it cannot be told is no reason to fail.
    async fn busy(&self, line: &[QueueEntry]) -> Busy {
        let mut busy = Busy::new();
        let Some(first) = line.first() else { return busy };
        let seen = match (&first.metadata, first.fence) {
            (Some(metadata), Some(fence)) => Some((metadata.clone(), fence)),
            _ => self.look_at(&first.key).await,
        };
        busy.holder = seen.map(|(metadata, fence)| {
            let mut holder = Holder::new(metadata.label);
            holder.fence = Some(fence);
            holder
        });
        busy
    }

    async fn look_at(&self, key: &Arc<str>) -> Option<(Metadata, u64)> {
        let seen = self.ensemble.look(vec![Arc::clone(key)]).await;
        seen.ok().and_then(|mut seen| seen.pop().flatten())
    }

    /// Another kind of lock has the name.
    pub(super) async fn refuse(&self, claim: &Claim, mode: Mode) -> Result<Verdict> {
        self.leave(claim.ticket.id).await?;
        Err(other_kind(mode))
    }

    /// Takes all that a claim has in the store away again.
    pub(super) async fn leave(&self, id: LeaseId) -> Result<()> {
        if let Some(lease) = self.leases.dismiss(id) {
            self.clear_out(&lease, None).await?;
            self.leases.remove(id);
        }
        Ok(())
    }

    pub(super) async fn convert(self: Arc<Self>, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let Some(lease) = self.leases.get(ticket.id).filter(|lease| lease.fence().is_some()) else {
            return Ok(Renewal::Gone);
        };
        let session = Arc::clone(&lease.session);
        match (lease.ticket.mode, to) {
            // To try again would be of no use, however patient its user is.
            _ if session.is_over() => return Ok(Renewal::Gone),
            (Mode::Write, Mode::Read) if !self.downgrade(lease).await? => return Ok(Renewal::Gone),
            (Mode::Write, Mode::Read) => {}
            (held, to) if held == to => {}
            (held, _) => return Answer::OtherKind(held).into_converted(session.proven()),
        }
        let (ttl, sent_at) = session.known();
        Ok(Renewal::Held { ttl, sent_at })
    }

    /// Makes a writer a reader; whether it is one. Until that is answered it may
    /// have either entry, and that one of them goes means nothing.
    async fn downgrade(self: &Arc<Self>, mut lease: OwnLease) -> Result<bool> {
        let Some(writer) = lease.entries.first().cloned() else { return Ok(false) };
        let doubtful = lease.is_doubtful();
        self.doubt(&mut lease, QueuePart::Queue, true);
        match self.ensemble.downgrade(Arc::clone(&lease.session), writer).await {
            Ok(Some(reader)) => Ok(self.converted(&mut lease, reader).await),
            Ok(None) => Ok(false),
            Err(error) => {
                let unknown = doubtful || error.effect() == Effect::Unknown;
                self.doubt(&mut lease, QueuePart::Queue, unknown);
                self.watch_over(&lease, false);
                Err(error)
            }
        }
    }

    /// A lease has become one for reading, perhaps under another key; unless it
    /// was taken away meanwhile.
    async fn converted(self: &Arc<Self>, lease: &mut OwnLease, reader: QueueEntry) -> bool {
        lease.ticket.mode = Mode::Read;
        lease.former = lease.entries.first().map(|writer| Arc::clone(&writer.key));
        lease.entries = vec![reader.clone()];
        self.doubt(lease, QueuePart::Queue, false);
        let changed = self.leases.update(lease.ticket.id, |known| {
            known.ticket.mode = Mode::Read;
            known.former.clone_from(&lease.former);
            known.entries.clone_from(&lease.entries);
        });
        match changed {
            Some(()) => self.watch_over(lease, true),
            None => {
                let departure = lease.departure(&reader);
                self.see_off(&lease.session, &reader, departure).await;
            }
        }
        changed.is_some()
    }

    async fn with_record(
        &self,
        mut verdict: Verdict,
        claim: &Claim,
        read: Read,
    ) -> Result<Verdict> {
        if let (Verdict::Granted(grant), true) = (&mut verdict, claim.wants.record()) {
            grant.record = match read {
                Some(value) => self.living(value).await?,
                None => self.live(&claim.ticket.name).await?.map(FoundRecord::record),
            };
        }
        Ok(verdict)
    }
}

/// What was read of a record on the way, if it was.
type Read = Option<Option<StoredValue>>;
type Asked = (Verdict, Read);

/// Somebody clears the line all the time.
pub(super) fn removed() -> Error {
    let text = "its entries in the store are removed as soon as they are made; find out by whom";
    Error::new(ErrorKind::Unavailable, text).unknown()
}

/// The number of the last entry is that of the lease.
pub(super) fn fence(entries: &[QueueEntry]) -> u64 {
    entries.iter().filter_map(|entry| entry.fence).max().unwrap_or_default()
}

pub(super) fn other_kind(mode: Mode) -> Error {
    Answer::OtherKind(mode).into_verdict(crate::clock::Moment::default()).err().unwrap_or_else(
        || Error::invalid("the name is in use as another kind of lock; use another name"),
    )
}
