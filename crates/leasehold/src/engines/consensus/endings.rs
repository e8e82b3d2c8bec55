//! Endings: out of the line, and what is left behind.

use std::sync::Arc;

use super::desk::Desk;
use super::ensemble::{Ensemble, Entry, If, Life, Line, Part, Step};
use super::{Office, records};
use crate::claim::{Ending, LeaseId, Mode, Released, Store, Ticket};
use crate::error::Result;

impl<E: Ensemble> Office<E> {
    pub(super) async fn release(self: Arc<Self>, ticket: Ticket, end: Ending) -> Result<Released> {
        if let Some(store) = &end.store {
            store.check_as_ending(&ticket)?;
            store.check()?;
        }
        let desk = self.desks.dismiss(ticket.id);
        if end.cut_off && desk.as_ref().is_some_and(Desk::closes) {
            self.close_apart(ticket.id);
            return Ok(Released::AlreadyLost);
        }
        let found = match &desk {
            Some(desk) if !desk.is_doubtful() => self.end(desk, end.store).await?,
            _ => self.withdraw(&ticket).await?,
        };
        self.desks.remove(ticket.id);
        if let Some(desk) = desk {
            self.unbind(&desk).await;
        }
        Ok(if found { Released::Released } else { Released::AlreadyLost })
    }

    /// Nobody waits for the end of a lock delay.
    fn close_apart(self: &Arc<Self>, id: LeaseId) {
        if let Some(desk) = self.desks.remove(id) {
            let office = Arc::clone(self);
            self.home.spawn(async move { office.close(desk).await });
        }
    }

    /// Ends a lease, and stores what it leaves in the same change. What it takes
    /// with it goes before: whoever has the lease next may have written there.
    async fn end(&self, desk: &Desk, store: Option<Store>) -> Result<bool> {
        let store = store.filter(|_| desk.fence().is_some());
        let Some(Store { name, value, ttl, .. }) = store else {
            return self.clear(desk, None).await;
        };
        let Some(value) = value else {
            let ours = desk.all().next().map(|it| (Arc::clone(&it.key), it.fence.unwrap_or(0)));
            self.ensemble.store(name, If::Any, None, Life::Forever, ours).await?;
            return self.clear(desk, None).await;
        };
        let life = ttl.map_or(Life::Forever, Life::For);
        let put = Step::Put { name, bytes: records::plain(&value), life };
        self.clear(desk, Some(put)).await
    }

    /// Removes the entries of a desk in one go, or what is left of them; whether
    /// all were there.
    pub(super) async fn clear(&self, desk: &Desk, put: Option<Step>) -> Result<bool> {
        let removes: Vec<Step> = desk.all().map(remove).collect();
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

    /// Removes whatever a ticket may have left.
    pub(super) async fn withdraw(&self, ticket: &Ticket) -> Result<bool> {
        let parts: &[Part] = match self.way(ticket.mode) {
            Mode::Permits { .. } => &[Part::Permits, Part::Door],
            Mode::Exclusive | Mode::Read | Mode::Write => &[Part::Queue],
        };
        let mut found = false;
        for part in parts {
            found |= self.ensemble.withdraw(Line::of(&ticket.name, *part), ticket.id).await?;
        }
        Ok(found)
    }
}

/// Removes this entry.
pub(super) fn remove(entry: &Entry) -> Step {
    Step::Remove { key: Arc::clone(&entry.key), fence: entry.fence.unwrap_or_default() }
}
