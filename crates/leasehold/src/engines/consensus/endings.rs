//! Endings: out of the line, and what is left behind.

use std::sync::Arc;

use super::claims::{ATTEMPTS, removed};
use super::client::ConsensusClient;
use super::ensemble::{Departure, Ensemble, QueueEntry, QueueId, QueuePart, TxnStep, ValueLife};
use super::leases::OwnLease;
use super::record_format::RecordFormat;
use super::session::Session;
use crate::claim::{Ending, LeaseId, Mode, Released, Store, Ticket};
use crate::error::{Error, Result};

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn release(self: Arc<Self>, ticket: Ticket, end: Ending) -> Result<Released> {
        if let Some(store) = &end.store {
            store.check_as_ending(&ticket)?;
            self.check_store(store)?;
        }
        let lease = self.leases.dismiss(ticket.id);
        if end.cut_off && lease.as_ref().is_some_and(OwnLease::closes) {
            self.close_apart(ticket.id);
            return Ok(Released::AlreadyLost);
        }
        let found = match &lease {
            Some(lease) => self.clear_out(lease, end.store).await?,
            // Whether it held is not known: what was left behind is not stored.
            None => self.withdraw(&ticket, self.parts(&ticket), None).await? && end.store.is_none(),
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
    /// granted nothing. Only who holds leaves a record.
    pub(super) async fn clear_out(&self, lease: &OwnLease, store: Option<Store>) -> Result<bool> {
        let store = store.filter(|_| lease.fence().is_some());
        let last = store.map(|store| last_step(store, self.format));
        if lease.is_doubtful() {
            return self.clear_out_doubtful(lease, last).await;
        }
        let leaves = last.is_some();
        let ended = self.clear(lease, last).await?;
        let late = self.withdraw(&lease.ticket, &lease.stragglers, Some(&lease.session)).await;
        Ok(ended || (late.map_err(Error::unknown)? && !leaves))
    }

    /// The same where more may be there than is known, or something else.
    async fn clear_out_doubtful(&self, lease: &OwnLease, last: Option<TxnStep>) -> Result<bool> {
        let parts = self.parts(&lease.ticket);
        let rest = self.withdraw(&lease.ticket, parts, Some(&lease.session));
        let Some(last) = last else { return rest.await };
        let ended = self.end_seen(&lease.ticket, &last).await?;
        rest.await.map_err(Error::unknown)?;
        Ok(ended)
    }

    /// Ends a lease that may have been converted, and carries out this step in the same
    /// change; whether it was there. A conversion that comes after the look is seen by
    /// the next one.
    async fn end_seen(&self, ticket: &Ticket, last: &TxnStep) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let line = QueueId::of(&ticket.name, QueuePart::Queue);
            let line = self.ensemble.list(line, None).await?;
            let own = line.iter().filter(|entry| entry.id == Some(ticket.id));
            let removes: Vec<_> = own.map(|it| remove(it, Departure::Early(None))).collect();
            if removes.is_empty() {
                return Ok(false);
            }
            let steps = removes.into_iter().chain([last.clone()]).collect();
            if self.ensemble.change(steps).await?.is_some() {
                return Ok(true);
            }
        }
        Err(removed())
    }

    /// Removes the entries of a lease in one go, or what is left of them; whether
    /// all were there. Only then is the last step taken, in the same change.
    pub(super) async fn clear(&self, lease: &OwnLease, last: Option<TxnStep>) -> Result<bool> {
        let removes: Vec<TxnStep> =
            lease.all().map(|entry| remove(entry, lease.departure(entry))).collect();
        if removes.is_empty() {
            return Ok(false);
        }
        let steps = removes.iter().cloned().chain(last).collect();
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

/// What a lease leaves behind: written or deleted as it ends.
fn last_step(store: Store, format: RecordFormat) -> TxnStep {
    let Store { name, value, ttl, .. } = store;
    let Some(value) = value else { return TxnStep::Delete { name } };
    let life = ttl.map_or(ValueLife::Forever, ValueLife::For);
    TxnStep::Put { name, bytes: format.packed(&value, None), life }
}

/// Removes this entry, which leaves its line like that.
pub(super) fn remove(entry: &QueueEntry, departure: Departure) -> TxnStep {
    let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap_or_default());
    TxnStep::Remove { key, fence, departure }
}
