//! Endings: out of the line, and what is left behind.

use std::sync::Arc;

use super::client::ConsensusClient;
use super::ensemble::{
    Departure, Ensemble, If, QueueEntry, QueueId, QueuePart, TxnStep, ValueLife,
};
use super::leases::OwnLease;
use super::records;
use super::session::Session;
use crate::claim::{Ending, LeaseId, Mode, Released, Store, Ticket};
use crate::error::{Error, Result};

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn release(self: Arc<Self>, ticket: Ticket, end: Ending) -> Result<Released> {
        if let Some(store) = &end.store {
            store.check_as_ending(&ticket)?;
            store.check()?;
        }
        let lease = self.leases.dismiss(ticket.id);
        if end.cut_off && lease.as_ref().is_some_and(OwnLease::closes) {
            self.close_apart(ticket.id);
            return Ok(Released::AlreadyLost);
        }
        let found = match &lease {
            Some(lease) => self.clear_out(lease, end.store).await?,
            None => self.withdraw(&ticket, self.parts(&ticket), None).await?,
        };
        // As it is by now: a value may have been bound to it meanwhile.
        if let Some(lease) = self.leases.remove(ticket.id) {
            self.unbind(&lease).await;
        }
        Ok(if found { Released::Released } else { Released::AlreadyLost })
    }

    /// Nobody waits for the end of a lock delay.
    fn close_apart(self: &Arc<Self>, id: LeaseId) {
        if let Some(lease) = self.leases.remove(id) {
            let client = Arc::clone(self);
            self.home.spawn(async move { client.close(lease).await });
        }
    }

    /// Takes all away that a lease has in the store, and what may arrive there yet;
    /// whether anything was there. What arrives in between goes as well, and is
    /// granted nothing.
    pub(super) async fn clear_out(&self, lease: &OwnLease, store: Option<Store>) -> Result<bool> {
        let session = Some(&lease.session);
        if lease.is_doubtful() {
            return self.withdraw(&lease.ticket, self.parts(&lease.ticket), session).await;
        }
        let ended = self.end(lease, store).await?;
        let late = self.withdraw(&lease.ticket, &lease.stragglers, session).await;
        Ok(late.map_err(Error::unknown)? || ended)
    }

    /// Ends a lease, and stores what it leaves in the same change. What it takes
    /// with it goes before: whoever has the lease next may have written there.
    async fn end(&self, lease: &OwnLease, store: Option<Store>) -> Result<bool> {
        let store = store.filter(|_| lease.fence().is_some());
        let Some(Store { name, value, ttl, .. }) = store else {
            return self.clear(lease, None).await;
        };
        let Some(value) = value else {
            let ours = lease.all().next().map(|it| (Arc::clone(&it.key), it.fence.unwrap_or(0)));
            self.ensemble.store(name, If::Any, None, ValueLife::Forever, ours).await?;
            return self.clear(lease, None).await;
        };
        let life = ttl.map_or(ValueLife::Forever, ValueLife::For);
        let put = TxnStep::Put { name, bytes: records::plain(&value), life };
        self.clear(lease, Some(put)).await
    }

    /// Removes the entries of a lease in one go, or what is left of them; whether
    /// all were there.
    pub(super) async fn clear(&self, lease: &OwnLease, put: Option<TxnStep>) -> Result<bool> {
        let removes: Vec<TxnStep> =
            lease.all().map(|entry| remove(entry, lease.departure(entry))).collect();
        if removes.is_empty() {
            return Ok(false);
        }
        let steps = removes.iter().cloned().chain(put).collect();
        if self.ensemble.change(steps).await?.is_some() {
            return Ok(true);
        }
        if removes.len() > 1 {
            for step in removes {
                self.ensemble.change(vec![step]).await?;
            }
        }
        Ok(false)
    }

    /// The lines that a ticket may stand in.
    fn parts(&self, ticket: &Ticket) -> &'static [QueuePart] {
        match self.way(ticket.mode) {
            Mode::Permits { .. } => &[QueuePart::Permits, QueuePart::Door],
            Mode::Exclusive | Mode::Read | Mode::Write => &[QueuePart::Queue],
        }
    }

    /// How whoever wants a name in this mode stands in one of its lines.
    fn mode_in(&self, part: QueuePart, mode: Mode) -> Mode {
        match part {
            QueuePart::Door => Mode::Exclusive,
            QueuePart::Queue | QueuePart::Permits => self.way(mode),
        }
    }

    /// Removes whatever a ticket may have left in these lines.
    pub(super) async fn withdraw(
        &self,
        ticket: &Ticket,
        parts: &[QueuePart],
        session: Option<&Arc<Session>>,
    ) -> Result<bool> {
        let (mut found, mut begun) = (false, false);
        for part in parts {
            let line = QueueId::of(&ticket.name, *part);
            let whose = (ticket.id, self.mode_in(*part, ticket.mode));
            let asked = self.ensemble.withdraw(line, whose, session.cloned()).await;
            found |= asked.map_err(|error| if begun { error.unknown() } else { error })?;
            begun = true;
        }
        Ok(found)
    }
}

/// Removes this entry, which leaves its line like that.
pub(super) fn remove(entry: &QueueEntry, departure: Departure) -> TxnStep {
    let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap_or_default());
    TxnStep::Remove { key, fence, departure }
}
