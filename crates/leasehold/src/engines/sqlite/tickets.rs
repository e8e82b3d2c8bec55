//! What this client knows of its own tickets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::clients::ClientId;
use crate::claim::{LeaseId, Predecessor};
use crate::clock::Moment;
use crate::engine::state::SessionId;

/// All tickets of this client, queued and held.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<HashMap<LeaseId, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    session: SessionId,
    phase: Phase,
    /// There is reason to claim again, whatever the phase says.
    look: bool,
    /// What was handed over up to this fence has ended; see [`Outlook`].
    floor: u64,
    notify: Option<Arc<Notify>>,
}

/// The session of a ticket, and whether it is known to be held.
pub(super) type Known = Option<(SessionId, bool)>;

impl Entry {
    fn known(&self) -> Known {
        let held = matches!(self.phase, Phase::Held);
        (self.session != 0).then_some((self.session, held))
    }
}

/// Where a ticket stands.
#[derive(Clone, Debug, Default)]
pub(super) enum Phase {
    /// A claim is on its way. The entry is there before the place in the
    /// queue is, so that a hand-over that comes at once finds it.
    #[default]
    Asked,
    Queued(Outlook),
    /// Handed over, and nobody has come for it yet.
    Handed {
        fence: u64,
        predecessor: Predecessor,
    },
    Held,
}

/// What a waiter may expect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outlook {
    /// When the name may open although nobody says so.
    pub(super) look_at: Moment,
    /// Whose death would matter.
    pub(super) blockers: Vec<ClientId>,
    /// The newest fence then. Up to here a hand-over was meant for an earlier
    /// place of the ticket, and what was handed over has ended since.
    pub(super) floor: u64,
}

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
    pub(super) fn expect(&self, id: LeaseId) {
        self.map().entry(id).or_default();
    }

    pub(super) fn queued(&self, id: LeaseId, session: SessionId, outlook: Outlook) {
        let mut map = self.map();
        let entry = map.entry(id).or_default();
        entry.session = session;
        entry.floor = entry.floor.max(outlook.floor);
        let handed = matches!(entry.phase, Phase::Handed { fence, .. } if fence > entry.floor);
        if !handed {
            entry.phase = Phase::Queued(outlook);
        }
    }

    pub(super) fn held(&self, id: LeaseId, session: SessionId) {
        let mut map = self.map();
        let entry = map.entry(id).or_default();
        (entry.session, entry.phase) = (session, Phase::Held);
    }

    /// Forgets a ticket; whoever waits for it looks, and finds it gone.
    pub(super) fn remove(&self, id: LeaseId) -> bool {
        let entry = self.map().remove(&id);
        if let Some(notify) = entry.as_ref().and_then(|entry| entry.notify.as_ref()) {
            notify.notify_one();
        }
        entry.is_some()
    }

    /// Forgets a claim that was refused, unless an earlier one stands.
    pub(super) fn refused(&self, id: LeaseId) {
        let mut map = self.map();
        if map.get(&id).is_some_and(|entry| matches!(entry.phase, Phase::Asked)) {
            map.remove(&id);
        }
    }

    /// The session of a ticket and whether it is held, as far as known.
    pub(super) fn session(&self, id: LeaseId) -> Known {
        self.map().get(&id).and_then(Entry::known)
    }

    /// The same for many, at one go.
    pub(super) fn known(&self, ids: impl Iterator<Item = LeaseId>) -> Vec<Known> {
        let map = self.map();
        ids.map(|id| map.get(&id).and_then(Entry::known)).collect()
    }

    /// Whether any ticket lives by this session.
    pub(super) fn sessions(&self) -> std::collections::HashSet<SessionId> {
        self.map().values().map(|entry| entry.session).collect()
    }

    /// A waiter was handed the lease; word of it may come late.
    pub(super) fn hand(&self, id: LeaseId, fence: u64, predecessor: Predecessor) {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return };
        let waits = matches!(entry.phase, Phase::Asked | Phase::Queued(_));
        if waits && fence > entry.floor {
            entry.phase = Phase::Handed { fence, predecessor };
            entry.ring();
        }
    }

    /// Someone died; everyone who waited for it looks again.
    pub(super) fn died(&self, client: ClientId) {
        for entry in self.map().values_mut() {
            if matches!(&entry.phase, Phase::Queued(out) if out.blockers.contains(&client)) {
                entry.look = true;
                entry.ring();
            }
        }
    }

    /// What a waiter finds; a hand-over is taken.
    pub(super) fn look(&self, id: LeaseId) -> Seen {
        let mut map = self.map();
        let Some(entry) = map.get_mut(&id) else { return Seen::Look };
        if let Phase::Handed { fence, predecessor } = entry.phase {
            entry.phase = Phase::Held;
            return Seen::Granted { fence, predecessor };
        }
        match &entry.phase {
            Phase::Queued(outlook) if !std::mem::take(&mut entry.look) => {
                let notify = entry.notify.get_or_insert_default();
                Seen::Waiting(Arc::clone(notify), outlook.clone())
            }
            _ => Seen::Look,
        }
    }

    /// Forgets everything; all waits end.
    pub(super) fn close(&self) {
        let entries = std::mem::take(&mut *self.map());
        entries.values().for_each(Entry::ring);
    }

    /// What a waiter would find; nothing is taken.
    pub(super) fn glance(&self, id: LeaseId) -> Seen {
        let mut map = self.map();
        match map.get_mut(&id) {
            Some(Entry { phase: Phase::Queued(outlook), look: false, notify, .. }) => {
                Seen::Waiting(Arc::clone(notify.get_or_insert_default()), outlook.clone())
            }
            _ => Seen::Look,
        }
    }

    /// A waiter has looked at the store and knows better.
    pub(super) fn revise(&self, id: LeaseId, outlook: Outlook) {
        if let Some(entry) = self.map().get_mut(&id)
            && let Phase::Queued(known) = &mut entry.phase
        {
            entry.floor = entry.floor.max(outlook.floor);
            *known = outlook;
        }
    }
}

impl Entry {
    fn ring(&self) {
        if let Some(notify) = &self.notify {
            notify.notify_one();
        }
    }
}
