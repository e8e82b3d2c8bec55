//! Claims: into the line.

use std::sync::Arc;

use super::Office;
use super::card::Card;
use super::desk::{Desk, Stage};
use super::ensemble::{Ensemble, Entered, Entry, Joined, Line, Newcomer, Part, Value};
use super::line::{Standing, standing};
use super::records::Found;
use crate::claim::{
    Busy, Claim, Grant, Holder, LeaseId, Mode, Place, Renewal, Stance, Ticket, Verdict, Wants,
};
use crate::engine::state::Answer;
use crate::error::{Error, ErrorKind, Outcome, Result};

/// How often a claim joins again whose entry somebody removes at once.
pub(super) const ATTEMPTS: usize = 5;

impl<E: Ensemble> Office<E> {
    pub(super) async fn acquire(self: Arc<Self>, claim: Claim) -> Result<Verdict> {
        let verdict = self.ask(&claim).await;
        // Whatever failed: what it has in line has to be given back.
        verdict.map_err(|error| match self.desks.get(claim.ticket.id) {
            Some(desk) if desk.is_doubtful() || desk.all().next().is_some() => error.unknown(),
            _ => error,
        })
    }

    async fn ask(self: &Arc<Self>, claim: &Claim) -> Result<Verdict> {
        let desk = self.desk_for(claim).await?;
        if desk.ticket.mode != claim.ticket.mode {
            return Err(other_kind(desk.ticket.mode));
        }
        let unread = |verdict| (verdict, None);
        let (verdict, read) = match (desk.fence(), self.way(claim.ticket.mode)) {
            (Some(fence), _) => self.grant(&desk, claim, fence).map(unread)?,
            (None, Mode::Permits { take, of }) => {
                self.ask_for_permits(claim, desk, take, of).await.map(unread)?
            }
            (None, _) => self.ask_in_queue(claim, desk).await?,
        };
        let verdict = self.with_record(verdict, claim, read).await?;
        Ok(self.as_kept(verdict, claim.ticket.id))
    }

    /// A verdict as it stands now: a server that keeps sessions for less may have
    /// said so while the record was read, and whoever has no lease yet is not
    /// told of that.
    fn as_kept(&self, mut verdict: Verdict, id: LeaseId) -> Verdict {
        if let Verdict::Granted(grant) = &mut verdict {
            self.desks.update(id, |desk| {
                let (ttl, sent_at) = desk.session.known();
                if sent_at.after(ttl) < grant.sent_at.after(grant.ttl) {
                    (grant.ttl, grant.sent_at) = (ttl, sent_at);
                    desk.told = sent_at.after(ttl);
                }
            });
        }
        verdict
    }

    /// The desk of a claim. One whose session is over starts anew: its entries
    /// went with the session.
    async fn desk_for(self: &Arc<Self>, claim: &Claim) -> Result<Desk> {
        let known = self.desks.get(claim.ticket.id);
        if let Some(desk) = known.filter(|desk| !desk.session.is_over()) {
            return Ok(desk);
        }
        let session = self.ensemble.session(claim.ttl, claim.lock_delay).await?;
        self.attend(&session);
        let desk = Desk::new(claim, session);
        self.desks.put(desk.clone());
        Ok(desk)
    }

    /// The verdict, and what was read of the record on the way.
    async fn ask_in_queue(self: &Arc<Self>, claim: &Claim, mut desk: Desk) -> Result<Asked> {
        let mut wants = claim.wants;
        for _ in 0..ATTEMPTS {
            let (found, read) = self.see(claim, &mut desk, wants).await?;
            let Some(mine) = desk.entries.first() else {
                if let Some(verdict) = self.outside(claim, &found, read.flatten(), wants).await? {
                    return Ok((verdict, None));
                }
                wants = Wants::LeaseAndRecord;
                continue;
            };
            let verdict = match standing(&found, mine) {
                Standing::Holds => self.hold(claim, desk).await?,
                Standing::Behind(ahead) => self.stand(claim, Some(ahead), &found).await?,
                Standing::OtherKind(mode) => self.refuse(claim, mode).await?,
                // Somebody has removed it: to the end of the line.
                Standing::Absent => {
                    desk.entries.clear();
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
        desk: &mut Desk,
        wants: Wants,
    ) -> Result<(Vec<Entry>, Read)> {
        let line = Line::of(&claim.ticket.name, Part::Queue);
        if let Some(mine) = desk.entries.first() {
            return Ok((self.ensemble.list(line, Some(mine.clone())).await?, None));
        }
        let joined = self.join(claim, desk, line, claim.ticket.mode, wants).await?;
        Ok((joined.line, joined.value))
    }

    /// Nothing was written: because of a record that will do, or because somebody
    /// was in line. `None` if the record has outlived what it was bound to, and
    /// stands in nobody's way.
    async fn outside(
        &self,
        claim: &Claim,
        found: &[Entry],
        value: Option<Value>,
        wants: Wants,
    ) -> Result<Option<Verdict>> {
        let instead = value.filter(|_| wants == Wants::RecordOrLease);
        if instead.is_none() {
            return self.turned_away(claim, found).await.map(Some);
        }
        let Some(record) = self.living(instead).await? else { return Ok(None) };
        self.desks.remove(claim.ticket.id);
        Ok(Some(Verdict::Busy(Busy::found(record))))
    }

    /// Somebody was in line.
    async fn turned_away(&self, claim: &Claim, found: &[Entry]) -> Result<Verdict> {
        self.desks.remove(claim.ticket.id);
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
        desk: &mut Desk,
        line: Line,
        mode: Mode,
        wants: Wants,
    ) -> Result<Joined> {
        let (id, part) = (claim.ticket.id, line.part);
        let newcomer = self.newcomer(claim, desk, part, mode, wants);
        let (card, again) = (newcomer.card.clone(), newcomer.again);
        if !self.doubt(desk, part, true) {
            // It went with entries that somebody has removed, and is needed again.
            self.desks.put(desk.clone());
        }
        let mut joined = match self.ensemble.join(Arc::clone(&desk.session), line, newcomer).await {
            Ok(Entered(found)) => found.await.map_err(Error::unknown)?,
            Err(error) => {
                self.doubt(desk, part, again || error.outcome() == Outcome::Unknown);
                return Err(error);
            }
        };
        joined.mine.iter_mut().for_each(|entry| entry.card = Some(card.clone()));
        match part {
            Part::Door => desk.door = joined.mine.first().cloned(),
            Part::Queue | Part::Permits => desk.entries.clone_from(&joined.mine),
        }
        self.desks.update(id, |known| {
            (known.door, known.entries) = (desk.door.clone(), desk.entries.clone());
        });
        self.doubt(desk, part, false);
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
        desk: &Desk,
        part: Part,
        mode: Mode,
        wants: Wants,
    ) -> Newcomer {
        let alone = claim.stance == Stance::Try && matches!(mode, Mode::Exclusive | Mode::Write);
        Newcomer {
            id: claim.ticket.id,
            mode,
            card: Card::of(claim, self.way(claim.ticket.mode)),
            only_if_empty: alone && part == Part::Queue,
            again: desk.doubts.contains(&part),
            wants,
        }
    }

    /// Whether more may be left in a line than is known here; whether the desk is
    /// still there.
    fn doubt(&self, desk: &mut Desk, part: Part, doubtful: bool) -> bool {
        desk.doubts.retain(|other| *other != part);
        desk.doubts.extend(doubtful.then_some(part));
        let noted = |known: &mut Desk| known.doubts.clone_from(&desk.doubts);
        self.desks.update(desk.ticket.id, noted).is_some()
    }

    /// It is at the front: ours, unless its entries have gone meanwhile.
    pub(super) async fn hold(self: &Arc<Self>, claim: &Claim, desk: Desk) -> Result<Verdict> {
        let fence = fence(&desk.entries);
        if !claim.renewed && self.is_stale(&desk) {
            // Nobody will renew it, so it starts with all its time.
            self.ensemble.prove(Arc::clone(&desk.session)).await?;
        }
        let held = |now: &mut Desk| now.stage = Stage::Held { fence };
        if self.desks.update(claim.ticket.id, held).is_none() {
            return Err(removed());
        }
        self.watch_over(&desk, true);
        if let Some(span) = desk.fixed_for {
            self.end_at(claim.ticket.id, self.clock.now().after(span));
        }
        self.grant(&desk, claim, fence)
    }

    /// A lease, unless its session has ended meanwhile.
    fn grant(&self, desk: &Desk, claim: &Claim, fence: u64) -> Result<Verdict> {
        if desk.session.is_over() {
            let text = "the session ended before the lease was told; it is asked for again";
            return Err(Error::new(ErrorKind::Unavailable, text).unknown());
        }
        let (ttl, sent_at) = desk.session.known();
        let ttl = ttl.min(claim.ttl);
        self.desks.update(claim.ticket.id, |desk| desk.told = sent_at.after(ttl));
        Ok(Verdict::Granted(Grant::new(fence, ttl, sent_at)))
    }

    /// It is not at the front: it stands in line, or leaves.
    pub(super) async fn stand(
        self: &Arc<Self>,
        claim: &Claim,
        ahead: Option<Arc<str>>,
        line: &[Entry],
    ) -> Result<Verdict> {
        let id = claim.ticket.id;
        let mut busy = self.busy(line).await;
        if claim.stance == Stance::Try {
            self.leave(id).await?;
            return Ok(Verdict::Busy(busy));
        }
        let queued = self.desks.update(id, |desk| {
            let (ttl, sent_at) = desk.session.known();
            desk.stage = Stage::Queued { ahead };
            desk.told = sent_at.after(ttl);
            (desk.clone(), Place::new(ttl, sent_at))
        });
        if let Some((desk, place)) = queued {
            self.watch_over(&desk, false);
            busy.place = Some(place);
        }
        Ok(Verdict::Busy(busy))
    }

    /// Who is in the way. That it cannot be told is no reason to fail.
    async fn busy(&self, line: &[Entry]) -> Busy {
        let mut busy = Busy::new();
        let Some(first) = line.first() else { return busy };
        let seen = match (&first.card, first.fence) {
            (Some(card), Some(fence)) => Some((card.clone(), fence)),
            _ => self.look_at(&first.key).await,
        };
        busy.holder = seen.map(|(card, fence)| {
            let mut holder = Holder::new(card.label);
            holder.fence = Some(fence);
            holder
        });
        busy
    }

    async fn look_at(&self, key: &Arc<str>) -> Option<(Card, u64)> {
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
        if let Some(desk) = self.desks.dismiss(id) {
            match desk.is_doubtful() {
                true => self.withdraw(&desk.ticket).await?,
                false => self.clear(&desk, None).await?,
            };
            self.desks.remove(id);
        }
        Ok(())
    }

    pub(super) async fn convert(self: Arc<Self>, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let Some(desk) = self.desks.get(ticket.id).filter(|desk| desk.fence().is_some()) else {
            return Ok(Renewal::Gone);
        };
        let session = Arc::clone(&desk.session);
        match (desk.ticket.mode, to) {
            // To try again would be of no use, however patient its user is.
            _ if session.is_over() => return Ok(Renewal::Gone),
            (Mode::Write, Mode::Read) if !self.downgrade(desk).await? => return Ok(Renewal::Gone),
            (Mode::Write, Mode::Read) => {}
            (held, to) if held == to => {}
            (held, _) => return Answer::OtherKind(held).into_converted(session.proven()),
        }
        let (ttl, sent_at) = session.known();
        Ok(Renewal::Held { ttl, sent_at })
    }

    /// Makes a writer a reader; whether it is one. Until that is answered it may
    /// have either entry, and that one of them goes means nothing.
    async fn downgrade(self: &Arc<Self>, mut desk: Desk) -> Result<bool> {
        let Some(writer) = desk.entries.first().cloned() else { return Ok(false) };
        let doubtful = desk.is_doubtful();
        self.doubt(&mut desk, Part::Queue, true);
        match self.ensemble.downgrade(Arc::clone(&desk.session), writer).await {
            Ok(Some(reader)) => Ok(self.converted(&mut desk, reader).await),
            Ok(None) => Ok(false),
            Err(error) => {
                let unknown = doubtful || error.outcome() == Outcome::Unknown;
                self.doubt(&mut desk, Part::Queue, unknown);
                self.watch_over(&desk, false);
                Err(error)
            }
        }
    }

    /// A lease has become one for reading, perhaps under another key; unless it
    /// was taken away meanwhile.
    async fn converted(self: &Arc<Self>, desk: &mut Desk, reader: Entry) -> bool {
        desk.ticket.mode = Mode::Read;
        desk.former = desk.entries.first().map(|writer| Arc::clone(&writer.key));
        desk.entries = vec![reader.clone()];
        self.doubt(desk, Part::Queue, false);
        let changed = self.desks.update(desk.ticket.id, |known| {
            known.ticket.mode = Mode::Read;
            known.former.clone_from(&desk.former);
            known.entries.clone_from(&desk.entries);
        });
        match changed {
            Some(()) => self.watch_over(desk, true),
            None => self.see_off(&desk.session, &reader).await,
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
                None => self.live(&claim.ticket.name).await?.map(Found::record),
            };
        }
        Ok(verdict)
    }
}

/// What was read of a record on the way, if it was.
type Read = Option<Option<Value>>;
type Asked = (Verdict, Read);

/// Somebody clears the line all the time.
pub(super) fn removed() -> Error {
    let text = "its entries in the store are removed as soon as they are made; find out by whom";
    Error::new(ErrorKind::Unavailable, text).unknown()
}

/// The number of the last entry is that of the lease.
pub(super) fn fence(entries: &[Entry]) -> u64 {
    entries.iter().filter_map(|entry| entry.fence).max().unwrap_or_default()
}

pub(super) fn other_kind(mode: Mode) -> Error {
    Answer::OtherKind(mode).into_verdict(crate::clock::Moment::default()).err().unwrap_or_else(
        || Error::invalid("the name is in use as another kind of lock; use another name"),
    )
}
