//! What the holder of a lease asks for: to keep it, to turn it into a read lease,
//! to give it back.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::command::StoreCommand;
use super::fault::{StoreFault, Trial};
use super::notify::{EvictedBy, StoreOutlook, Tickets};
use super::schema::{int, lease_id};
use super::transaction::{LoadedName, StoreTransaction};
use crate::claim::{Ending, LeaseId, Mode, Place, Refresh, Released, Renewal, Ticket};
use crate::engine::state::{Answer, SessionId, Verb};
use crate::engines::kit::waiters::KnownTicket;
use crate::error::{Error, Result};
use crate::name::Name;

/// Keeps tickets alive: one row for all that share a ttl.
#[derive(Debug)]
pub(super) struct Renew {
    tickets: Vec<Refresh>,
    /// What is left of each session once it is extended; `None` if it ended.
    left: HashMap<SessionId, Option<Duration>>,
    lost: HashMap<LeaseId, EvictedBy>,
    seats: Vec<NewSeat>,
    /// The names whose lines were served.
    served: HashSet<Name>,
}

/// What is new to remember of a ticket: its session, and its fence or 0.
type NewSeat = Option<(SessionId, u64)>;

/// The answers, and all tickets that were taken away meanwhile.
pub(super) type Renewed = (Vec<Renewal>, Vec<(LeaseId, EvictedBy)>);

impl Renew {
    pub(super) fn new(tickets: Vec<Refresh>) -> Self {
        Self {
            tickets,
            left: HashMap::new(),
            lost: HashMap::new(),
            seats: Vec::new(),
            served: HashSet::new(),
        }
    }

    /// Extends every session that our tickets live by, once.
    fn extend(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        known: &[KnownTicket],
    ) -> Trial<()> {
        let mut longest: HashMap<SessionId, Duration> = HashMap::new();
        for (refresh, known) in self.tickets.iter().zip(known) {
            if let Some((session, _)) = known {
                let ttl = longest.entry(*session).or_default();
                *ttl = refresh.ttl.max(*ttl);
            }
        }
        for (session, ttl) in longest {
            self.extend_one(transaction, session, ttl)?;
        }
        Ok(())
    }

    fn extend_one(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        session: SessionId,
        ttl: Duration,
    ) -> Trial<Option<Duration>> {
        let left = transaction.sessions.extend(session, ttl)?;
        self.left.insert(session, left);
        self.lost.extend(losses(transaction, session)?);
        Ok(left)
    }

    fn answer(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        at: usize,
        known: KnownTicket,
    ) -> Trial<(NewSeat, Renewal)> {
        if self.lost.contains_key(&self.tickets[at].ticket.id) {
            return Ok((None, Renewal::Gone));
        }
        let Some((session, held)) = known else { return self.ask_by_name(transaction, at) };
        let left = self.left.get(&session).copied().flatten();
        if !held {
            return self.renew_place(transaction, at, left);
        }
        let held = |ttl| Renewal::Held { ttl, sent_at: transaction.now };
        // We know all about it: there is nothing new to remember.
        Ok((None, left.map_or(Renewal::Gone, held)))
    }

    /// For one that waits, as far as we know. The first of a line looks whether
    /// anybody's turn has come; for the others their rows say enough.
    fn renew_place(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        at: usize,
        left: Option<Duration>,
    ) -> Trial<(NewSeat, Renewal)> {
        let ticket = &self.tickets[at].ticket;
        match left {
            Some(left)
                if !self.served.insert(ticket.name.clone())
                    && transaction.seat_of(&ticket.name, ticket.id)?.is_some() =>
            {
                let floor = transaction.newest(ticket.name.namespace())?;
                let place = Place::new(left, transaction.now).above(floor);
                Ok((None, Renewal::Queued(place)))
            }
            _ => self.ask_by_name(transaction, at),
        }
    }

    /// For a ticket that may have been granted meanwhile, or is not ours.
    fn ask_by_name(
        &mut self,
        transaction: &mut StoreTransaction<'_>,
        at: usize,
    ) -> Trial<(NewSeat, Renewal)> {
        let Refresh { ticket, ttl, .. } = self.tickets[at].clone();
        let mut loaded = transaction.load(&ticket.name, Some(ticket.id))?;
        let answer = transaction.step(&mut loaded, Verb::Renew { id: ticket.id, ttl })?;
        let seat = loaded.state.find(ticket.id);
        transaction.save(loaded)?;
        let floor = transaction.newest(ticket.name.namespace())?;
        let (Some((session, grant)), false) = (seat, answer == Answer::Gone) else {
            return Ok((None, Renewal::Gone));
        };
        let left = match self.left.get(&session) {
            Some(left) => *left,
            None => self.extend_one(transaction, session, ttl)?,
        };
        let Some(left) = left else { return Ok((None, Renewal::Gone)) };
        let sent_at = transaction.now;
        let answer = match grant {
            None => Renewal::Queued(Place::new(left, sent_at).above(floor)),
            Some(_) => Renewal::Held { ttl: left, sent_at },
        };
        Ok((Some((session, grant.map_or(0, |(fence, _)| fence))), answer))
    }
}

impl StoreCommand for Renew {
    type Answer = Renewed;

    fn is_quick(&self) -> bool {
        self.tickets.len() <= 16
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Renewed> {
        let known =
            transaction.tickets.known_all(self.tickets.iter().map(|refresh| refresh.ticket.id));
        self.extend(transaction, &known)?;
        let mut answers = Vec::with_capacity(self.tickets.len());
        for (at, known) in known.into_iter().enumerate() {
            let (seat, answer) = match self.answer(transaction, at, known) {
                // A name that cannot be read is none of the others' business.
                Err(StoreFault::Refused(error)) => (None, Renewal::Unknown(error)),
                answer => answer?,
            };
            self.seats.push(seat);
            answers.push(answer);
        }
        // Also those of our tickets that were not asked for: their rows are gone.
        Ok((answers, self.lost.drain().collect()))
    }

    fn settle(&mut self, answer: Result<&Renewed, &Error>, tickets: &Tickets) {
        let Ok((answers, lost)) = answer else { return };
        // The bus hears of these first, and needs to find them.
        let lost: HashSet<_> = lost.iter().map(|(id, _)| *id).collect();
        for ((refresh, answer), seat) in self.tickets.iter().zip(answers).zip(&self.seats) {
            let ticket = &refresh.ticket;
            match (answer, *seat) {
                (Renewal::Gone, _) if !lost.contains(&ticket.id) => drop(tickets.remove(ticket.id)),
                (Renewal::Held { .. }, Some((session, fence))) => {
                    tickets.held(ticket, session, fence);
                }
                (Renewal::Queued(_), Some((session, _))) if tickets.known(ticket.id).is_none() => {
                    tickets.queued(ticket, session, StoreOutlook::default());
                }
                _ => {}
            }
        }
    }
}

/// Takes what was written down for a session's owner.
fn losses(
    transaction: &StoreTransaction<'_>,
    session: SessionId,
) -> Trial<Vec<(LeaseId, EvictedBy)>> {
    const ANY: &str = "SELECT lease, why FROM losses WHERE session = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let mut query = transaction.db.prepare_cached(ANY)?;
    let rows: Vec<_> = query.query_map([int(session)], read)?.collect::<Result<_, _>>()?;
    if !rows.is_empty() {
        let mut cut = transaction.db.prepare_cached("DELETE FROM losses WHERE session = ?1")?;
        cut.execute([int(session)])?;
    }
    let parse = |(lease, why): (String, String)| {
        Some((lease_id(&lease)?, serde_json::from_str(&why).ok()?))
    };
    Ok(rows.into_iter().filter_map(parse).collect())
}

/// Turns a write lease into a read lease.
#[derive(Debug)]
pub(super) struct Convert {
    pub(super) ticket: Ticket,
    pub(super) to: Mode,
}

impl StoreCommand for Convert {
    type Answer = Renewal;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Renewal> {
        let (id, to) = (self.ticket.id, self.to);
        let mut loaded = transaction.load(&self.ticket.name, Some(id))?;
        let answer = transaction.step(&mut loaded, Verb::Convert { id, to })?;
        transaction.save(loaded)?;
        Ok(answer.into_converted(transaction.now)?)
    }
}

/// Gives a lease back.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) ticket: Ticket,
    pub(super) ending: Ending,
}

impl StoreCommand for Release {
    type Answer = Released;

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Released> {
        let id = self.ticket.id;
        let store = self.ending.store.take();
        store.as_ref().map_or(Ok(()), |store| store.check_as_ending(&self.ticket))?;
        let loaded = transaction.load(&self.ticket.name, Some(id))?;
        let Some(store) = store.filter(|_| loaded.state.holds(id, transaction.now)) else {
            return self.end(transaction, loaded);
        };
        // It expects nothing, so there is no conflict to speak of.
        transaction.store(&store).map(drop)?;
        let loaded = transaction.load(&self.ticket.name, Some(id));
        // The record is there, whatever becomes of the lease.
        loaded.and_then(|loaded| self.end(transaction, loaded)).map_err(StoreFault::unknown)
    }

    fn settle(&mut self, answer: Result<&Released, &Error>, tickets: &Tickets) {
        if answer.is_ok() {
            tickets.remove(self.ticket.id);
        }
    }
}

impl Release {
    fn end(
        &self,
        transaction: &mut StoreTransaction<'_>,
        mut loaded: LoadedName,
    ) -> Trial<Released> {
        let id = self.ticket.id;
        let seat = loaded.state.find(id);
        let ending = self.ending.clone();
        let answer = transaction.step(&mut loaded, Verb::Release { id, ending })?;
        transaction.save(loaded)?;
        if let Some((session, _)) = seat {
            transaction.sessions.end_fixed(session)?;
        }
        Ok(match answer {
            Answer::Released => Released::Released,
            _ => Released::AlreadyLost,
        })
    }
}
