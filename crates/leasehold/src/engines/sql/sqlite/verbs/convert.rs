//! Turning a write lease into a read lease.

use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::Ledger;
use crate::claim::{Mode, Renewal, Ticket};
use crate::engine::state::Verb;

#[derive(Debug)]
pub(in super::super) struct Convert {
    pub(in super::super) ticket: Ticket,
    pub(in super::super) to: Mode,
}

impl Act for Convert {
    type Answer = Renewal;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Renewal> {
        let (id, to) = (self.ticket.id, self.to);
        let mut page = ledger.load(&self.ticket.name)?;
        let answer = ledger.step(&mut page, Verb::Convert { id, to })?;
        ledger.save(page)?;
        Ok(answer.into_converted(ledger.now)?)
    }
}
