//! Asking for a lease.

use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::{Ledger, Page};
use super::super::tickets::{Outlook, Tickets};
use crate::claim::{Busy, Claim, Grant, Place, Stance, Ticket, Verdict, Wants};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb};
use crate::error::{Error, Result};

/// A waiter this close to the front watches the holders itself; those behind
/// it watch only whoever is before them.
const FRONT: usize = 4;
/// How many of those ahead are asked whether they live.
const ASKED: usize = 16;

#[derive(Debug)]
pub(in super::super) struct Acquire {
    claim: Claim,
    seat: Option<(SessionId, Option<Outlook>)>,
}

impl Acquire {
    pub(in super::super) const fn new(claim: Claim) -> Self {
        Self { claim, seat: None }
    }

    fn ticket(&self) -> &Ticket {
        &self.claim.ticket
    }

    fn step(&self, ledger: &mut Ledger<'_>, page: &mut Page, session: SessionId) -> Trial<Answer> {
        let claim = Box::new(self.claim.clone());
        ledger.step(page, Verb::Acquire { claim, session })
    }

    /// Keeps the session of the seat, if there is one, and says how long.
    fn keep(&mut self, ledger: &mut Ledger<'_>, page: &Page, session: SessionId) -> Trial<()> {
        let Some((seated, _)) = page.state.find(self.ticket().id) else { return Ok(()) };
        ledger.save_session(seated)?;
        // The seat of a fixed lease that is claimed again has its own session.
        if seated != session && !self.claim.renewed {
            ledger.extend(seated, self.claim.ttl)?;
        }
        self.seat = Some((seated, None));
        Ok(())
    }

    fn verdict(
        &mut self,
        ledger: &mut Ledger<'_>,
        page: &Page,
        answer: Answer,
        load: bool,
    ) -> Trial<Verdict> {
        let now = ledger.now;
        let left = self.seat.as_ref().map(|(session, _)| ledger.left(*session)).transpose()?;
        match answer {
            Answer::Granted { fence, ttl, predecessor } => {
                let mut grant = Grant::new(fence, left.unwrap_or(ttl), now).following(predecessor);
                if load {
                    grant.record = ledger.record(&self.claim.ticket.name)?;
                }
                Ok(Verdict::Granted(grant))
            }
            Answer::Busy { holder, recheck_in, .. } => {
                let outlook = outlook(ledger, page, self.ticket(), now.after(recheck_in))?;
                self.seat.iter_mut().for_each(|(_, seen)| *seen = Some(outlook.clone()));
                let given = ledger.given(self.claim.ticket.name.namespace())?;
                let place = left.map(|left| Place::new(left, now).above(given));
                Ok(Verdict::Busy(Busy { holder, recheck_in: Some(recheck_in), place, found: None }))
            }
            refused => Ok(refused.into_verdict(now)?),
        }
    }
}

impl Act for Acquire {
    type Answer = Verdict;

    fn prepare(&self, tickets: &Tickets) {
        if matches!(self.claim.stance, Stance::Wait { .. }) {
            tickets.expect(self.ticket().id);
        }
    }

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Verdict> {
        self.claim.ticket.mode.check()?;
        let session = ledger.session_for(&self.claim)?;
        let mut page = ledger.load(&self.claim.ticket.name)?;
        let instead = self.claim.wants == Wants::RecordOrLease
            && page.state.mode_of(self.ticket().id).is_none();
        if instead && let Some(found) = ledger.record(&self.claim.ticket.name)? {
            return Ok(Verdict::Busy(Busy::found(found)));
        }
        let mut answer = self.step(ledger, &mut page, session)?;
        if matches!(answer, Answer::Busy { .. } | Answer::OtherKind(_)) {
            let ahead: Vec<_> = page.state.ahead(self.ticket().id).take(ASKED).collect();
            if ledger.bury_dead(&ahead)? {
                // A seat that is new has its session on the books by now.
                ledger.follow(&mut page)?;
                answer = self.step(ledger, &mut page, session)?;
            }
        }
        self.keep(ledger, &page, session)?;
        // Where there was none, none has come within the transaction.
        let verdict = self.verdict(ledger, &page, answer, self.claim.wants.record() && !instead);
        ledger.save(page)?;
        verdict
    }

    fn settle(&mut self, answer: Result<&Verdict, &Error>, tickets: &Tickets) {
        let id = self.ticket().id;
        match (answer, self.seat.take()) {
            (Ok(Verdict::Granted(_)), Some((session, _))) => tickets.held(id, session),
            (Ok(Verdict::Busy(_)), Some((session, outlook))) => {
                tickets.queued(id, session, outlook.unwrap_or_default());
            }
            (Ok(_), _) => drop(tickets.remove(id)),
            (Err(_), _) => tickets.refused(id),
        }
    }
}

/// What a waiter may expect, and whom it should watch.
pub(in super::super) fn outlook(
    ledger: &mut Ledger<'_>,
    page: &Page,
    ticket: &Ticket,
    look_at: Moment,
) -> Trial<Outlook> {
    let ahead: Vec<_> = page.state.ahead(ticket.id).collect();
    let holders = page.state.holding_sessions().count();
    let near = if ahead.len() - holders < FRONT { holders.min(ASKED) } else { 0 };
    let mut blockers = Vec::new();
    for &session in ahead[..near].iter().chain(ahead.last()) {
        let client = ledger.session(session)?.map_or(0, |session| session.client);
        if client != 0 && client != ledger.mine.client && !blockers.contains(&client) {
            blockers.push(client);
        }
    }
    Ok(Outlook { look_at, blockers })
}
