//! Ending what a dead client left behind.

use super::super::clients::{ClientId, Liveness};
use super::super::command::Command;
use super::super::fault::Trial;
use super::super::tickets::Tickets;
use super::super::transaction::Transaction;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(in super::super) struct Reap(pub(in super::super) ClientId);

impl Command for Reap {
    /// Whether it does not run any more, as far as can be told.
    type Answer = bool;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<bool> {
        match transaction.clients.life(self.0) {
            Liveness::Alive => Ok(false),
            Liveness::Dead => transaction.bury(self.0),
            // Someone else has buried it, or its ttl will tell.
            Liveness::Unclear => Ok(true),
        }
    }

    fn settle(&mut self, answer: Result<&bool, &Error>, tickets: &Tickets) {
        if matches!(answer, Ok(true)) {
            tickets.died(self.0);
        }
    }
}
