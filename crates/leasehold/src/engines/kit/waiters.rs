//! What a client knows of its own tickets: those that wait, and those that hold.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::{LeaseId, Predecessor, Ticket, Wake};
use crate::engine::state::SessionId;

/// What a waiter knows of its name.
pub(in crate::engines) trait QueueOutlook: Clone {
    /// The newest fence then. Up to here a hand-over was meant for an earlier
    /// place of the ticket, and what was handed over has ended since.
    fn floor(&self) -> u64;
}

/// All tickets of one client, queued and held.
#[derive(Debug)]
pub(in crate::engines) struct Tickets<O>(Mutex<HashMap<LeaseId, TicketEntry<O>>>);

#[derive(Debug)]
struct TicketEntry<O> {
    session: SessionId,
    phase: TicketPhase<O>,
    /// There is reason to claim again, whatever the phase says.
    look: bool,
    /// Whether it has ever waited.
    crowded: bool,
    /// What was handed over up to this fence has ended.
    floor: u64,
    /// With which it is held, if it is.
    fence: u64,
    /// Most tickets never wait.
    notify: Option<Arc<Notify>>,
}

/// Where a ticket stands.
#[derive(Clone, Debug)]
enum TicketPhase<O> {
    /// A claim is on its way. The entry is there before the place in the
    /// queue is, so that a hand-over that comes at once finds it.
    Asked,
    Queued(O),
    /// There is reason to claim again.
    Look,
    /// Handed over, and nobody has come for it yet.
    Handed {
        fence: u64,
        predecessor: Predecessor,
    },
    Held,
    /// The same, unless the server that said so was replaced since.
    Doubted,
}

/// The session of a ticket, and whether it is known to be held.
pub(in crate::engines) type KnownTicket = Option<(SessionId, bool)>;

/// What a waiter finds.
#[derive(Debug)]
pub(in crate::engines) enum TicketStatus<O> {
    Granted { fence: u64, predecessor: Predecessor },
    Look,
    Waiting(Arc<Notify>, O),
}

impl<O> TicketEntry<O> {
    const fn new() -> Self {
        Self {
            session: 0,
            phase: TicketPhase::Asked,
            look: false,
            crowded: false,
            floor: 0,
            fence: 0,
            notify: None,
        }
    }

    fn known(&self) -> KnownTicket {
        let held = matches!(self.phase, TicketPhase::Held);
        (self.session != 0).then_some((self.session, held))
    }

    /// Whether it may still be handed something.
    fn waits(&self) -> bool {
        matches!(self.phase, TicketPhase::Asked | TicketPhase::Queued(_) | TicketPhase::Look)
    }

    fn notify(&mut self) -> Arc<Notify> {
        Arc::clone(self.notify.get_or_insert_default())
    }

    fn ring(&self) {
        if let Some(notify) = &self.notify {
            notify.notify_one();
        }
    }
}

impl<O> Default for Tickets<O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<O: QueueOutlook> Tickets<O> {
    fn map(&self) -> MutexGuard<'_, HashMap<LeaseId, TicketEntry<O>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes ready for a hand-over that may come before the claim is answered.
    pub(in crate::engines) fn expect(&self, ticket: &Ticket) {
        self.map().entry(ticket.id).or_insert_with(TicketEntry::new);
    }

    pub(in crate::engines) fn queued(&self, ticket: &Ticket, session: SessionId, outlook: O) {
        let mut map = self.map();
        let entry = map.entry(ticket.id).or_insert_with(TicketEntry::new);
        (entry.session, entry.crowded) = (session, true);
        entry.floor = entry.floor.max(outlook.floor());
        let handed =
            matches!(entry.phase, TicketPhase::Handed { fence, .. } if fence > entry.floor);
        if !handed {
            entry.phase = TicketPhase::Queued(outlook);
        }
    }

    /// Notes that a ticket is held; true if it is the only one.
    pub(in crate::engines) fn held(&self, ticket: &Ticket, session: SessionId, fence: u64) -> bool {
        let mut map = self.map();
        let entry = map.entry(ticket.id).or_insert_with(TicketEntry::new);
        (entry.session, entry.phase, entry.fence) = (session, TicketPhase::Held, fence);
        map.len() == 1
    }

    /// Forgets a ticket; whoever waits for it looks, and finds it gone.
    pub(in crate::engines) fn remove(&self, id: LeaseId) -> bool {
        let entry = self.map().remove(&id);
        entry.is_some_and(|entry| {
            entry.ring();
            true
        })
    }

    /// Forgets a claim that was refused, unless an earlier one stands.
    pub(in crate::engines) fn refused(&self, id: LeaseId) {
        let mut map = self.map();
        if map.get(&id).is_some_and(|entry| matches!(entry.phase, TicketPhase::Asked)) {
            map.remove(&id);
        }
    }

    /// The session of a ticket and whether it is held, as far as known.
    pub(in crate::engines) fn known(&self, id: LeaseId) -> KnownTicket {
        self.map().get(&id).and_then(TicketEntry::known)
    }

    /// The sessions that any ticket lives by.
    pub(in crate::engines) fn sessions(&self) -> HashSet<SessionId> {
        self.map().values().map(|entry| entry.session).collect()
    }

    /// A waiter was handed the lease; word of it may come late.
    pub(in crate::engines) fn hand(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return };
        if entry.waits() && fence > entry.floor {
            entry.phase = TicketPhase::Handed { fence, predecessor };
            entry.ring();
        }
    }

    /// What a waiter finds; a hand-over is taken.
    pub(in crate::engines) fn look(&self, id: LeaseId) -> TicketStatus<O> {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return TicketStatus::Look };
        match entry.phase.clone() {
            TicketPhase::Handed { fence, predecessor } => {
                (entry.phase, entry.fence) = (TicketPhase::Held, fence);
                TicketStatus::Granted { fence, predecessor }
            }
            TicketPhase::Queued(outlook) if !std::mem::take(&mut entry.look) => {
                TicketStatus::Waiting(entry.notify(), outlook)
            }
            _ => TicketStatus::Look,
        }
    }

    /// What a wait takes along whose time is up: a hand-over may have come in
    /// the same moment.
    pub(in crate::engines) fn last_look(&self, id: LeaseId) -> Wake {
        match self.look(id) {
            TicketStatus::Granted { fence, predecessor } => Wake::Granted { fence, predecessor },
            _ => Wake::Look,
        }
    }

    fn revised(&self, id: LeaseId, outlook: O, then: impl FnOnce(&TicketEntry<O>)) {
        if let Some(entry) = self.map().get_mut(&id)
            && let TicketPhase::Queued(known) = &mut entry.phase
        {
            entry.floor = entry.floor.max(outlook.floor());
            *known = outlook;
            then(entry);
        }
    }

    /// Forgets everything; all waits end.
    pub(in crate::engines) fn close(&self) {
        let entries = std::mem::take(&mut *self.map());
        entries.values().for_each(TicketEntry::ring);
    }
}

/// Where every waiter looks for itself.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "for waiters that look themselves"))]
impl<O: QueueOutlook> Tickets<O> {
    /// What is known of many, at one go.
    pub(in crate::engines) fn known_all(
        &self,
        ids: impl Iterator<Item = LeaseId>,
    ) -> Vec<KnownTicket> {
        let map = self.map();
        ids.map(|id| map.get(&id).and_then(TicketEntry::known)).collect()
    }

    /// Something of each of those that wait, of the session that keeps its place,
    /// and of what it knows.
    pub(in crate::engines) fn waiting<T>(
        &self,
        of: impl Fn(LeaseId, SessionId, &O) -> Option<T>,
    ) -> Vec<T> {
        let map = self.map();
        let queued = map.iter().filter_map(|(id, entry)| match &entry.phase {
            TicketPhase::Queued(outlook) => of(*id, entry.session, outlook),
            _ => None,
        });
        queued.collect()
    }

    /// What a waiter would find; nothing is taken.
    pub(in crate::engines) fn glance(&self, id: LeaseId) -> TicketStatus<O> {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return TicketStatus::Look };
        match entry.phase.clone() {
            TicketPhase::Queued(outlook) if !entry.look => {
                TicketStatus::Waiting(entry.notify(), outlook)
            }
            _ => TicketStatus::Look,
        }
    }

    /// A waiter has looked for itself and knows better.
    pub(in crate::engines) fn revise(&self, id: LeaseId, outlook: O) {
        self.revised(id, outlook, |_| {});
    }

    /// Everyone looks again whose outlook was this.
    pub(in crate::engines) fn look_again(&self, concerned: impl Fn(&O) -> bool) {
        for entry in self.map().values_mut() {
            if matches!(&entry.phase, TicketPhase::Queued(outlook) if concerned(outlook)) {
                entry.look = true;
                entry.ring();
            }
        }
    }
}

/// Where one task looks for all who wait, and a server may forget what it said.
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "for tickets that one task looks after")
)]
impl<O: QueueOutlook> Tickets<O> {
    /// Whether it is what the ticket holds that was granted with this fence, and
    /// not what an earlier attempt held.
    pub(in crate::engines) fn holds(&self, id: LeaseId, fence: u64) -> bool {
        self.map().get(&id).is_some_and(|entry| match entry.phase {
            TicketPhase::Held | TicketPhase::Doubted => fence >= entry.fence,
            TicketPhase::Handed { fence: handed, .. } => fence >= handed,
            TicketPhase::Asked | TicketPhase::Queued(_) | TicketPhase::Look => false,
        })
    }

    /// Whether the ticket waits or had to.
    pub(in crate::engines) fn is_crowded(&self, id: LeaseId) -> bool {
        self.map().get(&id).is_some_and(|entry| entry.crowded)
    }

    /// Whether the ticket waits, and is on nobody's way to claim again.
    pub(in crate::engines) fn is_queued(&self, id: LeaseId) -> bool {
        let queued = |entry: &TicketEntry<O>| matches!(entry.phase, TicketPhase::Queued(_));
        self.map().get(&id).is_some_and(queued)
    }

    pub(in crate::engines) fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    /// A waiter has reason to claim again. A claim that is on its way sees for
    /// itself.
    pub(in crate::engines) fn stir(&self, id: LeaseId) {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return };
        if entry.waits() && !matches!(entry.phase, TicketPhase::Asked) {
            entry.phase = TicketPhase::Look;
            entry.ring();
        }
    }

    /// Someone has looked for a waiter and knows better; the waiter hears of it.
    pub(in crate::engines) fn revise_for(&self, id: LeaseId, outlook: O) {
        self.revised(id, outlook, TicketEntry::ring);
    }

    /// What is known to be held has to be asked for again, by name.
    pub(in crate::engines) fn doubt(&self) {
        for entry in self.map().values_mut() {
            if matches!(entry.phase, TicketPhase::Held) {
                entry.phase = TicketPhase::Doubted;
            }
        }
    }

    pub(in crate::engines) fn is_doubted(&self, id: LeaseId) -> bool {
        self.map().get(&id).is_some_and(|entry| matches!(entry.phase, TicketPhase::Doubted))
    }

    /// It is held after all.
    pub(in crate::engines) fn trust(&self, id: LeaseId) {
        if let Some(entry) = self.map().get_mut(&id)
            && matches!(entry.phase, TicketPhase::Doubted)
        {
            entry.phase = TicketPhase::Held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Mode;
    use crate::name::{Name, Namespace};

    /// A floor, and nothing else.
    #[derive(Clone, Debug)]
    struct Floor(u64);

    impl QueueOutlook for Floor {
        fn floor(&self) -> u64 {
            self.0
        }
    }

    fn waiter() -> (Tickets<Floor>, Ticket) {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        (Tickets::default(), Ticket::new(name, Mode::Exclusive))
    }

    #[test]
    fn a_hand_over_that_comes_before_the_place_is_kept() {
        let (tickets, ticket) = waiter();
        tickets.expect(&ticket);
        tickets.hand(ticket.id, 8, Predecessor::None);
        tickets.queued(&ticket, 1, Floor(7));
        assert!(matches!(tickets.look(ticket.id), TicketStatus::Granted { fence: 8, .. }));
        assert_eq!(tickets.known(ticket.id), Some((1, true)), "it is held by now");
    }

    #[test]
    fn a_hand_over_to_an_earlier_place_is_not_taken() {
        let (tickets, ticket) = waiter();
        tickets.expect(&ticket);
        tickets.hand(ticket.id, 7, Predecessor::None);
        tickets.queued(&ticket, 1, Floor(7));
        assert!(matches!(tickets.look(ticket.id), TicketStatus::Waiting(..)), "it came before");
        tickets.hand(ticket.id, 7, Predecessor::None);
        assert!(matches!(tickets.last_look(ticket.id), Wake::Look), "it came late");
    }

    #[test]
    fn a_claim_that_is_refused_leaves_an_earlier_one_alone() {
        let (tickets, ticket) = waiter();
        tickets.expect(&ticket);
        tickets.refused(ticket.id);
        assert!(tickets.is_empty());
        tickets.held(&ticket, 1, 8);
        tickets.expect(&ticket);
        tickets.refused(ticket.id);
        assert_eq!(tickets.known(ticket.id), Some((1, true)));
    }

    #[test]
    fn whoever_is_told_to_look_again_looks_once() {
        let (tickets, ticket) = waiter();
        tickets.queued(&ticket, 1, Floor(7));
        tickets.look_again(|outlook| outlook.0 == 7);
        assert!(matches!(tickets.glance(ticket.id), TicketStatus::Look));
        assert!(matches!(tickets.look(ticket.id), TicketStatus::Look));
        assert!(matches!(tickets.look(ticket.id), TicketStatus::Waiting(..)));
    }
}
