//! Asking for a lease.

use super::client::TableClient;
use super::columns::{int, key};
use super::errand::Errand;
use super::own_sessions::TableSession;
use super::row::NameRow;
use super::statements::LeaseSql;
use super::text::step;
use crate::claim::{Busy, Claim, Grant, Mode, Place, Predecessor, Stance, Verdict, Wants};
use crate::engine::state::{Answer, State, Verb};
use crate::engines::database::drivers::{Reply, SqlStep};
use crate::error::{Effect, Error, ErrorKind, Result};

/// How often a session may end before the claim that it was made for arrives.
const SESSIONS: usize = 5;

impl TableClient {
    pub(super) async fn acquire(&self, claim: Claim) -> Result<Verdict> {
        claim.ticket.mode.check()?;
        if matches!(claim.stance, Stance::Wait { .. }) {
            self.tickets.expect(&claim.ticket);
        }
        let verdict = self.ask(&claim).await;
        match &verdict {
            Ok(Verdict::Busy(Busy { place: None, .. })) => {
                self.forget(claim.ticket.id);
            }
            Ok(_) => {}
            Err(error) => {
                self.tickets.refused(claim.ticket.id);
                if error.effect() == Effect::Unknown {
                    self.unconfirmed.fear(claim.ticket.id);
                }
            }
        }
        verdict
    }

    async fn ask(&self, claim: &Claim) -> Result<Verdict> {
        for _ in 0..SESSIONS {
            let table_session = self.lodge(claim).await?;
            // Whoever is in the queue knows that the name is not free.
            if self.tickets.known(claim.ticket.id).is_none()
                && let Some(verdict) = self.take(claim, table_session).await?
            {
                return Ok(verdict);
            }
            if let Some(verdict) = self.join(claim, table_session).await? {
                return self.with_record(claim, verdict).await;
            }
            self.own_sessions.forget(table_session.id);
        }
        let message = "sessions expired before a claim could be made; use a longer ttl";
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// The session for a claim: a fixed one that is repeated has its own.
    async fn lodge(&self, claim: &Claim) -> Result<TableSession> {
        let known = self.tickets.known(claim.ticket.id).filter(|_| !claim.renewed);
        match known.and_then(|(session, _)| self.own_sessions.get(session)) {
            Some(table_session) => Ok(table_session),
            None => self.session_for(claim).await,
        }
    }

    /// Takes a free name: one statement, and one more for the record.
    async fn take(&self, claim: &Claim, table_session: TableSession) -> Result<Option<Verdict>> {
        let taking = self.taking(claim, table_session)?;
        let (reply, record) = if claim.wants.record() {
            self.and_record(taking, &claim.ticket.name).await?
        } else {
            (self.pool.run(&taking.sql, taking.values).await?, None)
        };
        let fence = Self::fence(&reply).map_err(Error::unknown)?;
        if fence == 0 {
            let found = record.filter(|_| claim.wants == Wants::RecordOrLease);
            if found.is_some() && !claim.renewed {
                self.end_fixed(table_session.id).await;
            }
            return Ok(found.map(|record| Verdict::Busy(Busy::found(record))));
        }
        self.holds(&claim.ticket, table_session.id, fence);
        let left = table_session.until.since(reply.sent_at);
        let mut grant = Grant::new(fence, left, reply.sent_at).following(Predecessor::None);
        grant.record = record;
        Ok(Some(Verdict::Granted(grant)))
    }

    fn taking(&self, claim: &Claim, table_session: TableSession) -> Result<SqlStep> {
        let ticket = &claim.ticket;
        let alone = matches!(ticket.mode, Mode::Exclusive | Mode::Write);
        let mut state = State::granted(claim, table_session.id);
        state.follow(|_| crate::clock::Moment::default());
        let state = serde_json::to_string(&state).map_err(|cause| {
            Error::new(ErrorKind::Unexpected, "a claim cannot be written").caused_by(cause)
        })?;
        let [space, name] = self.key(&ticket.name);
        let values = vec![
            space,
            name,
            alone.then(|| key(ticket.id)).into(),
            int(table_session.id).into(),
            format!("[{}]", table_session.id).into(),
            claim.owner.label().into(),
            claim.meta.as_deref().into(),
            state.into(),
            self.clock_offset.good_until(&self.clock).into(),
        ];
        let LeaseSql { take, take_new, .. } = &self.statements;
        let statement = if claim.wants == Wants::RecordOrLease { take_new } else { take };
        Ok(step(statement, values, false))
    }

    /// The fence that was drawn; 0 if the name was not taken.
    fn fence(reply: &Reply) -> Result<u64> {
        match reply.rows.first() {
            Some(row) => Ok(row.int(0)?.unsigned_abs()),
            // Without a session no row was made, whatever the number says.
            None if reply.affected > 0 => Ok(reply.last_id),
            None => Ok(0),
        }
    }

    /// It is granted: a caller that hears of a failure gives it back.
    async fn with_record(&self, claim: &Claim, mut verdict: Verdict) -> Result<Verdict> {
        if let (Verdict::Granted(grant), true) = (&mut verdict, claim.wants.record()) {
            let record = self.record(&claim.ticket.name).await;
            grant.record = record.map_err(Error::unknown)?;
        }
        Ok(verdict)
    }

    /// Takes the name or joins its queue; `None` if the session has ended.
    async fn join(&self, claim: &Claim, table_session: TableSession) -> Result<Option<Verdict>> {
        let act = |page: &mut NameRow| {
            if page.own.is_none_or(|end| end <= page.now) {
                return Ok(None);
            }
            let claim = Box::new(claim.clone());
            Ok(Some(page.step(Verb::Acquire { claim, session: table_session.id })))
        };
        let errand = Errand::to(&claim.ticket.name).about(claim.ticket.id).with(table_session.id);
        let (answer, page) = self.change(errand, act).await?;
        let seat = page.state.find(claim.ticket.id).map(|(session, _)| session);
        if !claim.renewed && seat != Some(table_session.id) {
            self.end_fixed(table_session.id).await;
        }
        answer.map(|answer| self.verdict(claim, &page, answer)).transpose()
    }

    fn verdict(&self, claim: &Claim, page: &NameRow, answer: Answer) -> Result<Verdict> {
        let (ticket, sent_at) = (&claim.ticket, page.sent_at);
        let seat = page.state.find(ticket.id).map(|(session, _)| session);
        match (answer, seat) {
            (Answer::Granted { fence, predecessor, .. }, Some(session)) => {
                self.holds(ticket, session, fence);
                let grant = Grant::new(fence, page.left(session), sent_at);
                Ok(Verdict::Granted(grant.following(predecessor)))
            }
            (Answer::Busy { holder, recheck_in, .. }, seat) => {
                let floor = page.newest();
                let place =
                    seat.map(|session| Place::new(page.left(session), sent_at).above(floor));
                if let Some(session) = seat {
                    self.waits(ticket, session, page, sent_at.after(recheck_in));
                }
                // Whoever has a place is told when to claim again.
                let recheck_in = Some(recheck_in).filter(|_| place.is_none());
                Ok(Verdict::Busy(Busy { holder, recheck_in, place, found: None }))
            }
            (answer, _) => answer.into_verdict(sent_at),
        }
    }
}
