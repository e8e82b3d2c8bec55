//! A waiter's look at the store, in case that a message was lost.

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::tickets::{Outlook, Tickets};
use super::super::transaction::Transaction;
use super::acquire::outlook;
use crate::claim::Ticket;
use crate::engine::state::{Answer, Step, Verb, step};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(in super::super) struct Peek(pub(in super::super) Ticket);

/// What a waiter saw.
#[derive(Debug)]
pub(in super::super) enum Peeked {
    /// There is reason to claim again.
    Look,
    Still(Outlook),
}

impl Command for Peek {
    type Answer = Peeked;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Peeked> {
        let page = transaction.load(&self.0.name)?;
        let Some((session, None)) = page.state.find(self.0.id) else { return Ok(Peeked::Look) };
        let mut next = page.state.clone();
        let verb = Verb::Renew { id: self.0.id, ttl: transaction.left(session)? };
        let Step { answer, follow_ups } = step(&mut next, verb, transaction.now, &mut 0);
        if !matches!(answer, Answer::Queued { .. }) || !follow_ups.is_empty() {
            return Ok(Peeked::Look);
        }
        let ahead: Vec<_> = page.state.ahead(self.0.id).take(4).collect();
        for id in ahead {
            let client = transaction.live_session(id)?.map_or(0, |session| session.client);
            if client != 0 && transaction.is_dead(client) {
                return Ok(Peeked::Look);
            }
        }
        let look_at = next.opens_at(self.0.mode);
        Ok(Peeked::Still(outlook(transaction, &page, &self.0, look_at)?))
    }

    fn settle(&mut self, answer: Result<&Peeked, &Error>, tickets: &Tickets) {
        if let Ok(Peeked::Still(outlook)) = answer {
            tickets.revise(self.0.id, outlook.clone());
        }
    }
}
