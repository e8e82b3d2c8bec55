//! Turning a write lease into a read lease.

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::transaction::Transaction;
use crate::claim::{Mode, Renewal, Ticket};
use crate::engine::state::Verb;

#[derive(Debug)]
pub(in super::super) struct Convert {
    pub(in super::super) ticket: Ticket,
    pub(in super::super) to: Mode,
}

impl Command for Convert {
    type Answer = Renewal;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Renewal> {
        let (id, to) = (self.ticket.id, self.to);
        let mut page = transaction.load(&self.ticket.name)?;
        let answer = transaction.step(&mut page, Verb::Convert { id, to })?;
        transaction.save(page)?;
        Ok(answer.into_converted(transaction.now)?)
    }
}
