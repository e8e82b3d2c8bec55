//! A bid: a ticket in one of its rounds, as nodes know it.
//!
//! Rounds of one ticket overlap: what an earlier one has asked for arrives, or
//! is cleaned up, while a later one is decided. So each round is a lease of its
//! own on the nodes, and whatever is undone for it can only be its own. Its id
//! is the ticket's, with the number of the round in place of the last bits;
//! the scripts of Redis nodes know that split too.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::claim::{LeaseId, Ticket};
use crate::mutant::{self, Mutant};

/// How many bits of an id are the round. A client that opens a million rounds
/// a second runs out of them in nine years.
const BITS: u32 = 48;
/// Above the round of every bid: for whoever means all of them.
const LAST: u64 = (1 << BITS) - 1;

/// Counts the rounds of a client. They need not be a ticket's own: later ones
/// have larger numbers, and that is all a node looks at.
#[derive(Debug, Default)]
pub(super) struct Rounds(AtomicU64);

impl Rounds {
    /// The ticket in a round that it never had before.
    pub(super) fn bid(&self, ticket: &Ticket) -> Ticket {
        let round = self.0.fetch_add(1, Ordering::Relaxed) % LAST;
        in_round(ticket, if mutant::lives(Mutant::StaleCleanUp) { 0 } else { round })
    }
}

/// What removes every round of a ticket, where the node can tell them.
pub(super) fn all_of(ticket: &Ticket) -> Ticket {
    in_round(ticket, LAST)
}

fn in_round(ticket: &Ticket, round: u64) -> Ticket {
    let id = family(ticket.id) << BITS | u128::from(round);
    Ticket { id: LeaseId::from_bits(id), ..ticket.clone() }
}

/// What all rounds of a ticket share.
pub(super) const fn family(id: LeaseId) -> u128 {
    id.to_bits() >> BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Mode;
    use crate::name::{Name, Namespace};

    fn ticket() -> Ticket {
        Ticket::new(Name::new(&Namespace::default(), "n").unwrap(), Mode::Exclusive)
    }

    #[test]
    fn each_round_has_an_id_of_its_own_and_all_are_of_one_family() {
        let (rounds, ticket) = (Rounds::default(), ticket());
        let bids: Vec<LeaseId> = (0..3).map(|_| rounds.bid(&ticket).id).collect();
        assert!(bids[0] < bids[1] && bids[1] < bids[2]);
        assert!(bids[2] < all_of(&ticket).id);
        assert!(bids.iter().all(|bid| family(*bid) == family(ticket.id)));
        assert_ne!(family(super::tests::ticket().id), family(ticket.id));
    }

    #[test]
    fn the_scripts_see_twenty_digits_of_the_ticket_and_twelve_of_the_round() {
        let text = |id: LeaseId| format!("{:032x}", id.to_bits());
        let ticket = ticket();
        let first = text(Rounds::default().bid(&ticket).id);
        assert_eq!(first[..20], text(ticket.id)[..20]);
        assert_eq!(first[20..], *"000000000000");
    }
}
