//! Asking for a lease.

use super::command::StoreCommand;
use super::fault::Trial;
use super::notify::{StoreOutlook, Tickets};
use super::transaction::{LoadedName, StoreTransaction};
use crate::claim::{Busy, Claim, Grant, LeaseId, Place, Stance, Ticket, Verdict, Wants};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb};
use crate::error::{Error, Result};

/// A waiter this close to the front watches the holders itself; those behind
/// it watch only whoever is before them.
const FRONT: usize = 4;
/// How many of those ahead are asked whether they live.
const ASKED: usize = 16;

#[derive(Debug)]
pub(super) struct Acquire {
    claim: Claim,
    seat: Option<(SessionId, Option<StoreOutlook>)>,
}

impl Acquire {
    pub(super) const fn new(claim: Claim) -> Self {
        Self { claim, seat: None }
    }

    fn ticket(&self) -> &Ticket {
        &self.claim.ticket
    }

    fn step(
        &self,
        transaction: &mut StoreTransaction<'_>,
        loaded: &mut LoadedName,
        session: SessionId,
    ) -> Trial<Answer> {
        let claim = Box::new(self.claim.clone());
        transaction.step(loaded, Verb::Acquire { claim, session })
    }

    /// Keeps the session of the seat, if there is one, and says how long.
    fn keep(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        loaded: &LoadedName,
        session: SessionId,
    ) -> Trial<()> {
        let Some((seated, _)) = loaded.state.find(self.ticket().id) else { return Ok(()) };
        transaction.sessions.save(seated)?;
        // The seat of a fixed lease that is claimed again has its own session.
        if seated != session && !self.claim.renewed {
            transaction.sessions.extend(seated, self.claim.ttl)?;
        }
        self.seat = Some((seated, None));
        Ok(())
    }

    fn verdict(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        loaded: &LoadedName,
        answer: Answer,
        load: bool,
    ) -> Trial<Verdict> {
        let now = transaction.now;
        let left = self
            .seat
            .as_ref()
            .map(|(session, _)| transaction.sessions.left(*session))
            .transpose()?;
        match answer {
            Answer::Granted { fence, ttl, predecessor } => {
                let mut grant = Grant::new(fence, left.unwrap_or(ttl), now).following(predecessor);
                if load {
                    grant.record = transaction.record(&self.claim.ticket.name)?;
                }
                Ok(Verdict::Granted(grant))
            }
            Answer::Busy { holder, recheck_in, .. } => {
                let outlook =
                    outlook(transaction, loaded, self.ticket().id, now.after(recheck_in))?;
                self.seat.iter_mut().for_each(|(_, seen)| *seen = Some(outlook.clone()));
                let place = left.map(|left| Place::new(left, now).above(outlook.floor));
                Ok(Verdict::Busy(Busy { holder, recheck_in: Some(recheck_in), place, found: None }))
            }
            refused => Ok(refused.into_verdict(now)?),
        }
    }
}

impl StoreCommand for Acquire {
    type Answer = Verdict;

    fn prepare(&self, tickets: &Tickets) {
        if matches!(self.claim.stance, Stance::Wait { .. }) {
            tickets.expect(self.ticket());
        }
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Verdict> {
        self.claim.ticket.mode.check()?;
        let session = transaction.sessions.of_claim(&self.claim)?;
        let mut loaded = transaction.load(&self.claim.ticket.name, Some(self.ticket().id))?;
        let instead = self.claim.wants == Wants::RecordOrLease
            && loaded.state.mode_of(self.ticket().id).is_none();
        if instead && let Some(found) = transaction.record(&self.claim.ticket.name)? {
            return Ok(Verdict::Busy(Busy::found(found)));
        }
        let mut answer = self.step(transaction, &mut loaded, session)?;
        if matches!(answer, Answer::Busy { .. } | Answer::OtherKind(_)) {
            let ahead: Vec<_> = loaded.state.ahead(self.ticket().id).take(ASKED).collect();
            if transaction.reap_dead(&ahead)? {
                // A seat that is new has its session on the books by now.
                transaction.follow(&mut loaded)?;
                answer = self.step(transaction, &mut loaded, session)?;
            }
        }
        self.keep(transaction, &loaded, session)?;
        // Where there was none, none has come within the transaction.
        let verdict =
            self.verdict(transaction, &loaded, answer, self.claim.wants.record() && !instead);
        transaction.save(loaded)?;
        verdict
    }

    fn settle(&mut self, answer: Result<&Verdict, &Error>, tickets: &Tickets) {
        let id = self.ticket().id;
        match (answer, self.seat.take()) {
            (Ok(Verdict::Granted(grant)), Some((session, _))) => {
                tickets.held(self.ticket(), session, grant.fence);
            }
            (Ok(Verdict::Busy(_)), Some((session, outlook))) => {
                tickets.queued(self.ticket(), session, outlook.unwrap_or_default());
            }
            (Ok(_), _) => drop(tickets.remove(id)),
            (Err(_), _) => tickets.refused(id),
        }
    }
}

/// What a waiter may expect, and whom it should watch.
pub(super) fn outlook(
    transaction: &mut StoreTransaction<'_>,
    loaded: &LoadedName,
    lease: LeaseId,
    look_at: Moment,
) -> Trial<StoreOutlook> {
    let ahead: Vec<_> = loaded.state.ahead(lease).collect();
    let holders = loaded.state.holding_sessions().count();
    let near = if ahead.len() - holders < FRONT { holders.min(ASKED) } else { 0 };
    let mut blockers = Vec::new();
    for &session in ahead[..near].iter().chain(ahead.last()) {
        let client = transaction.sessions.get(session)?.map_or(0, |session| session.client);
        if client != 0 && client != transaction.client && !blockers.contains(&client) {
            blockers.push(client);
        }
    }
    let floor = transaction.newest(loaded.name.namespace())?;
    Ok(StoreOutlook { look_at, blockers, floor, name: Some(loaded.name.clone()) })
}
