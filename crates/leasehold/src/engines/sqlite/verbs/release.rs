//! Giving a lease back.

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::tickets::Tickets;
use super::super::transaction::Transaction;
use crate::claim::{Ending, Released, Ticket};
use crate::engine::state::{Answer, Verb};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(in super::super) struct Release {
    pub(in super::super) ticket: Ticket,
    pub(in super::super) ending: Ending,
}

impl Command for Release {
    type Answer = Released;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Released> {
        let id = self.ticket.id;
        let store = self.ending.store.take();
        store.as_ref().map_or(Ok(()), |store| store.check_as_ending(&self.ticket))?;
        let mut page = transaction.load(&self.ticket.name)?;
        if let Some(store) = store.filter(|_| page.state.holds(id, transaction.now)) {
            // It expects nothing, so there is no conflict to speak of.
            transaction.store(&store).map(drop)?;
            page = transaction.load(&self.ticket.name)?;
        }
        let seat = page.state.find(id);
        let ending = self.ending.clone();
        let answer = transaction.step(&mut page, Verb::Release { id, ending })?;
        transaction.save(page)?;
        if let Some((session, _)) = seat {
            transaction.end_fixed(session)?;
        }
        Ok(match answer {
            Answer::Released => Released::Released,
            _ => Released::AlreadyLost,
        })
    }

    fn settle(&mut self, answer: Result<&Released, &Error>, tickets: &Tickets) {
        if answer.is_ok() {
            tickets.remove(self.ticket.id);
        }
    }
}
