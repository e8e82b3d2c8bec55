//! Giving a lease back.

use std::sync::Arc;

use super::client::TableClient;
use super::columns::{key, span};
use super::errand::Errand;
use super::row::{GOOD, LINGER, NameRow};
use crate::claim::{Ending, Mode, Released, Ticket};
use crate::engine::state::{SessionId, Verb};
use crate::error::Result;

impl TableClient {
    pub(super) async fn release(
        self: &Arc<Self>,
        ticket: Ticket,
        ending: Ending,
    ) -> Result<Released> {
        if let Some(store) = &ending.store {
            store.check_as_ending(&ticket)?;
        }
        // Even if this fails: nobody looks for it any more, and those who come after
        // it are not to wait for what it would see.
        self.lines.leave(ticket.id);
        let known = self.tickets.known(ticket.id);
        // Where one has waited, others probably do, and there is more to it.
        let crowded = self.tickets.is_crowded(ticket.id);
        let plain = ending.is_plain() && ending.store.is_none();
        let alone = matches!(ticket.mode, Mode::Exclusive | Mode::Write);
        let (released, session) = if plain && alone && !crowded && self.free(&ticket).await? {
            (Released::Released, known.map(|(session, _)| session))
        } else {
            self.leave(&ticket, &ending).await?
        };
        self.forget(ticket.id);
        self.lay_to_rest(&ticket);
        let session = session.unwrap_or(0);
        if self.own_sessions.is_fixed(session) || self.own_sessions.get(session).is_none() {
            self.end_fixed(session).await;
        }
        Ok(released)
    }

    /// Gives back what we hold alone: one statement; false if there is more to
    /// it.
    async fn free(&self, ticket: &Ticket) -> Result<bool> {
        let [space, name] = self.key(&ticket.name);
        let values = vec![space, name, key(ticket.id).into(), span(LINGER).into()];
        Ok(self.run(&self.statements.free, values).await?.affected > 0)
    }

    /// Ends a lease or leaves the queue; whoever is next gets it.
    pub(super) async fn leave(
        &self,
        ticket: &Ticket,
        ending: &Ending,
    ) -> Result<(Released, Option<SessionId>)> {
        let id = ticket.id;
        if let Some(store) = &ending.store {
            self.enter_space(store.name.namespace()).await?;
        }
        let act = |page: &mut NameRow| {
            if let Some(store) = ending.store.as_ref().filter(|_| page.state.holds(id, page.now)) {
                page.with = self.ending(store);
            }
            let seat = page.state.find(id).map(|(session, _)| session);
            let ending = ending.clone();
            Ok((page.step(Verb::Release { id, ending }), seat))
        };
        let errand = Errand::to(&ticket.name).about(id).to_leave();
        let ((answer, seat), _) = self.change(errand, act).await?;
        Ok((answer.into_released()?, seat))
    }

    /// Sees to it that a released ticket stays released.
    pub(super) fn lay_to_rest(self: &Arc<Self>, ticket: &Ticket) {
        if !self.unconfirmed.forget(ticket.id) {
            return;
        }
        let (engine, clock) = (Arc::downgrade(self), self.clock.clone());
        let (ticket, until) = (ticket.clone(), clock.now().after(GOOD));
        self.start(async move {
            clock.sleep_until(until).await;
            while let Some(inner) = engine.upgrade() {
                match inner.leave(&ticket, &Ending::new()).await {
                    Err(error) if error.is_retryable() => {}
                    _ => return,
                }
                drop(inner);
                clock.sleep_until(clock.now().after(GOOD)).await;
            }
        });
    }
}
