//! Ending what a dead client left behind.

use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::Ledger;
use super::super::roster::{ClientId, Life};
use super::super::tickets::Tickets;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(in super::super) struct Bury(pub(in super::super) ClientId);

impl Act for Bury {
    /// Whether it does not run any more, as far as can be told.
    type Answer = bool;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<bool> {
        match ledger.roster.life(self.0) {
            Life::Alive => Ok(false),
            Life::Dead => ledger.bury(self.0),
            // Someone else has buried it, or its ttl will tell.
            Life::Unclear => Ok(true),
        }
    }

    fn settle(&mut self, answer: Result<&bool, &Error>, tickets: &Tickets) {
        if matches!(answer, Ok(true)) {
            tickets.died(self.0);
        }
    }
}
