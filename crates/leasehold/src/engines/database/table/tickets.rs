//! What this client knows of its own tickets.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::{LeaseId, Predecessor, Ticket};
use crate::clock::Moment;
use crate::engine::state::SessionId;

/// All tickets of this client, queued and held.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<LeaseId, Entry>>);

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    session: SessionId,
    phase: Phase,
    /// Whether it has ever waited.
    crowded: bool,
    /// What was handed over up to this fence has ended; see [`Outlook`].
    floor: u64,
    /// With which it is held, if it is.
    fence: u64,
    notify: Arc<Notify>,
}

/// Where a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A claim is on its way. The entry is there before the place in the
    /// queue is, so that a hand-over that comes at once finds it.
    Asked,
    Queued(Outlook),
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

/// What a waiter knows of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outlook {
    /// The version of the row that this comes from.
    pub(super) version: i64,
    /// When the name may open although nobody says so, by our clock.
    pub(super) look_at: Moment,
    /// The newest fence then. Up to here a hand-over was meant for an earlier
    /// place of the ticket, and what was handed over has ended since.
    pub(super) floor: u64,
}

/// The session of a ticket, and whether it is known to be held.
pub(super) type Known = Option<(SessionId, bool)>;

/// What a waiter finds.
#[derive(Debug)]
pub(super) enum Seen {
    Granted { fence: u64, predecessor: Predecessor },
    Look,
    Waiting(Arc<Notify>, Outlook),
}

impl Tickets {
    fn map(&self) -> MutexGuard<'_, HashMap<LeaseId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes ready for a hand-over that may come before the claim is answered.
    pub(super) fn expect(&self, ticket: &Ticket) {
        let entry = || Entry {
            ticket: ticket.clone(),
            session: 0,
            phase: Phase::Asked,
            crowded: false,
            floor: 0,
            fence: 0,
            notify: Arc::default(),
        };
        self.map().entry(ticket.id).or_insert_with(entry);
    }

    pub(super) fn queued(&self, ticket: &Ticket, session: SessionId, outlook: Outlook) {
        self.expect(ticket);
        if let Some(entry) = self.map().get_mut(&ticket.id) {
            (entry.session, entry.crowded) = (session, true);
            entry.floor = entry.floor.max(outlook.floor);
            let handed = matches!(entry.phase, Phase::Handed { fence, .. } if fence > entry.floor);
            if !handed {
                entry.phase = Phase::Queued(outlook);
            }
        }
    }

    /// Notes that a ticket is held; true if it is the only one.
    pub(super) fn held(&self, ticket: &Ticket, session: SessionId, fence: u64) -> bool {
        self.expect(ticket);
        let mut map = self.map();
        if let Some(entry) = map.get_mut(&ticket.id) {
            (entry.session, entry.phase, entry.fence) = (session, Phase::Held, fence);
        }
        map.len() == 1
    }

    /// Forgets a ticket; whoever waits for it looks, and finds it gone.
    pub(super) fn remove(&self, id: LeaseId) -> bool {
        let entry = self.map().remove(&id);
        entry.is_some_and(|entry| {
            entry.notify.notify_one();
            true
        })
    }

    /// Forgets a claim that was refused, unless an earlier one stands.
    pub(super) fn refused(&self, id: LeaseId) {
        let mut map = self.map();
        if map.get(&id).is_some_and(|entry| entry.phase == Phase::Asked) {
            map.remove(&id);
        }
    }

    /// The session of a ticket and whether it is held, as far as known.
    pub(super) fn known(&self, id: LeaseId) -> Known {
        let map = self.map();
        let entry = map.get(&id).filter(|entry| entry.session != 0)?;
        Some((entry.session, entry.phase == Phase::Held))
    }

    /// Whether it is what the ticket holds that was granted with this fence, and
    /// not what an earlier attempt held.
    pub(super) fn holds(&self, id: LeaseId, fence: u64) -> bool {
        self.map().get(&id).is_some_and(|entry| match entry.phase {
            Phase::Held | Phase::Doubted => fence >= entry.fence,
            Phase::Handed { fence: handed, .. } => fence >= handed,
            Phase::Asked | Phase::Queued(_) | Phase::Look => false,
        })
    }

    /// Whether the ticket waits or had to.
    pub(super) fn is_crowded(&self, id: LeaseId) -> bool {
        self.map().get(&id).is_some_and(|entry| entry.crowded)
    }

    /// What a ticket that waits knows of its name.
    pub(super) fn outlook(&self, id: LeaseId) -> Option<Outlook> {
        match self.map().get(&id)?.phase {
            Phase::Queued(outlook) => Some(outlook),
            _ => None,
        }
    }

    /// The sessions that any ticket lives by.
    pub(super) fn sessions(&self) -> HashSet<SessionId> {
        self.map().values().map(|entry| entry.session).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map().is_empty()
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.map().values().any(|entry| matches!(entry.phase, Phase::Queued(_)))
    }

    /// Those that wait, and what they know.
    pub(super) fn waiting(&self) -> Vec<(Ticket, Outlook)> {
        let map = self.map();
        let waiting = map.values().filter_map(|entry| match entry.phase {
            Phase::Queued(outlook) => Some((entry.ticket.clone(), outlook)),
            _ => None,
        });
        waiting.collect()
    }

    /// A waiter was handed the lease; word of it may come late.
    pub(super) fn hand(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        if self.map().get(&id).is_some_and(|entry| fence > entry.floor) {
            self.turn_to(id, Phase::Handed { fence, predecessor });
        }
    }

    /// A waiter has reason to claim again.
    pub(super) fn stir(&self, id: LeaseId) {
        self.turn_to(id, Phase::Look);
    }

    fn turn_to(&self, id: LeaseId, phase: Phase) {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return };
        let waits = matches!(entry.phase, Phase::Asked | Phase::Queued(_) | Phase::Look);
        // A claim that is on its way sees for itself.
        if waits && (entry.phase != Phase::Asked || phase != Phase::Look) {
            entry.phase = phase;
            entry.notify.notify_one();
        }
    }

    /// What a waiter finds; a hand-over is taken.
    pub(super) fn look(&self, id: LeaseId) -> Seen {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return Seen::Look };
        match entry.phase {
            Phase::Handed { fence, predecessor } => {
                (entry.phase, entry.fence) = (Phase::Held, fence);
                Seen::Granted { fence, predecessor }
            }
            Phase::Queued(outlook) => Seen::Waiting(Arc::clone(&entry.notify), outlook),
            Phase::Asked | Phase::Look | Phase::Held | Phase::Doubted => Seen::Look,
        }
    }

    /// Someone has looked for a waiter and knows better.
    pub(super) fn revise(&self, id: LeaseId, outlook: Outlook) {
        if let Some(entry) = self.map().get_mut(&id)
            && let Phase::Queued(known) = &mut entry.phase
        {
            *known = outlook;
            entry.floor = entry.floor.max(outlook.floor);
            entry.notify.notify_one();
        }
    }

    /// What is known to be held has to be asked for again, by name.
    pub(super) fn doubt(&self) {
        let mut map = self.map();
        let held = map.values_mut().filter(|entry| entry.phase == Phase::Held);
        held.for_each(|entry| entry.phase = Phase::Doubted);
    }

    pub(super) fn is_doubted(&self, id: LeaseId) -> bool {
        self.map().get(&id).is_some_and(|entry| entry.phase == Phase::Doubted)
    }

    /// It is held after all.
    pub(super) fn trust(&self, id: LeaseId) {
        let mut map = self.map();
        let doubted = map.get_mut(&id).filter(|entry| entry.phase == Phase::Doubted);
        doubted.into_iter().for_each(|entry| entry.phase = Phase::Held);
    }

    /// Forgets everything; all waits end.
    pub(super) fn close(&self) {
        let entries = std::mem::take(&mut *self.map());
        entries.values().for_each(|entry| entry.notify.notify_one());
    }
}
