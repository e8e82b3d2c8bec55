//! Debts: rounds that were given up while a node did not answer, and of which
//! it may still have something. One task for each ticket sees to them, however
//! many rounds there are.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bid::family;
use crate::claim::{LeaseId, Ticket};

/// How often a node that did not answer is asked again to let go, and how soon.
const TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_secs(1);
/// How many rounds of a ticket are remembered.
const MOST: usize = 16;
/// For how many tickets a node owes something at a time: one that is away for
/// long is not asked for every release that it misses. The ttl does the rest.
const TICKETS: usize = 256;

/// What one node owes, by the family of the ticket.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<HashMap<u128, Debt>>);

#[derive(Debug, Default)]
struct Debt {
    bids: Vec<Owed>,
    tries: u32,
}

#[derive(Debug)]
struct Owed {
    bid: Ticket,
    /// Whether the node has said that it has nothing of it. That may be still
    /// under way; but to ask for it again and again before each new round would
    /// keep the rounds from ever being in time.
    asked: bool,
}

impl Debts {
    /// Notes one; true for the first of its ticket, whose task has to see to
    /// all of them.
    pub(super) fn add(&self, bid: Ticket) -> bool {
        let mut debts = self.debts();
        let first = !debts.contains_key(&family(bid.id));
        if first && debts.len() >= TICKETS {
            return false;
        }
        let debt = debts.entry(family(bid.id)).or_default();
        debt.tries = 0;
        if !debt.bids.iter().any(|owed| owed.bid == bid) {
            debt.bids.push(Owed { bid, asked: false });
        }
        let surplus = debt.bids.len().saturating_sub(MOST);
        debt.bids.drain(..surplus);
        first
    }

    /// What is owed for a ticket, known by any of its bids.
    pub(super) fn of(&self, id: LeaseId) -> Vec<Ticket> {
        self.those(id, |_| true)
    }

    /// What the node was not asked for yet, or did not answer.
    pub(super) fn unasked(&self, id: LeaseId) -> Vec<Ticket> {
        self.those(id, |owed| !owed.asked)
    }

    fn those(&self, id: LeaseId, which: impl Fn(&&Owed) -> bool) -> Vec<Ticket> {
        let debts = self.debts();
        let owed = debts.get(&family(id)).into_iter().flat_map(|debt| &debt.bids);
        owed.filter(which).map(|owed| owed.bid.clone()).collect()
    }

    /// The node has answered: it had it and it is gone, or there was nothing.
    pub(super) fn answered(&self, bid: &Ticket, removed: bool) {
        let mut debts = self.debts();
        let Some(debt) = debts.get_mut(&family(bid.id)) else { return };
        if removed {
            debt.bids.retain(|owed| owed.bid != *bid);
        }
        debt.bids.iter_mut().filter(|owed| owed.bid == *bid).for_each(|owed| owed.asked = true);
    }

    /// How long to wait before the next try; `None` if there is nothing left
    /// to do, or the ttl has to do it.
    pub(super) fn pause(&self, id: LeaseId) -> Option<Duration> {
        let mut debts = self.debts();
        let debt = debts.get_mut(&family(id))?;
        if debt.bids.is_empty() || debt.tries == TRIES {
            debts.remove(&family(id));
            return None;
        }
        debt.tries += 1;
        Some(AGAIN * (1 << (debt.tries - 1)))
    }

    fn debts(&self) -> MutexGuard<'_, HashMap<u128, Debt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bid::Rounds;
    use super::*;
    use crate::claim::Mode;
    use crate::name::{Name, Namespace};

    #[test]
    fn many_rounds_of_a_ticket_have_one_task_that_ends() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let (debts, rounds) = (Debts::default(), Rounds::default());
        let ticket = Ticket::new(name, Mode::Exclusive);
        let tasks = (0..100).filter(|_| debts.add(rounds.bid(&ticket))).count();
        assert_eq!((tasks, debts.of(ticket.id).len()), (1, MOST));
        let pauses: Vec<_> = std::iter::from_fn(|| debts.pause(ticket.id)).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16].map(Duration::from_secs));
        assert!(debts.of(ticket.id).is_empty() && debts.debts().is_empty(), "it is given up");
    }

    #[test]
    fn a_node_that_is_away_for_long_does_not_owe_everything() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let (debts, rounds) = (Debts::default(), Rounds::default());
        let bid = || rounds.bid(&Ticket::new(name.clone(), Mode::Exclusive));
        let tasks = (0..10 * TICKETS).filter(|_| debts.add(bid())).count();
        assert_eq!((tasks, debts.debts().len()), (TICKETS, TICKETS));
    }

    #[test]
    fn what_is_paid_is_forgotten() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let (debts, rounds) = (Debts::default(), Rounds::default());
        let ticket = Ticket::new(name, Mode::Exclusive);
        let bids: Vec<Ticket> = (0..3).map(|_| rounds.bid(&ticket)).collect();
        let first: Vec<bool> = bids.iter().map(|bid| debts.add(bid.clone())).collect();
        assert_eq!(first, [true, false, false]);
        debts.answered(&bids[1], true);
        assert_eq!(debts.of(ticket.id), [bids[0].clone(), bids[2].clone()]);
        debts.answered(&bids[0], false);
        assert_eq!(debts.unasked(ticket.id), [bids[2].clone()], "once is enough for a round");
        assert_eq!(debts.of(ticket.id).len(), 2, "it may be under way still");
        debts.answered(&bids[0], true);
        debts.answered(&bids[2], true);
        assert_eq!(debts.pause(ticket.id), None);
        assert!(debts.add(bids[0].clone()), "the next one has a task again");
    }
}
