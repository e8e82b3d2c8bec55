//! Waiting for a turn: one task per client looks for all its tickets.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;
use super::tickets::{Outlook, Seen};
use crate::claim::{Ticket, Wake};
use crate::clock::Moment;
use crate::engine::state::{Answer, Verb, step};
use crate::error::Result;

/// How often a holder looks whether something was taken away from it.
const LOSSES: Duration = Duration::from_secs(5);
/// How many names one statement asks for.
const NAMES: usize = 64;

impl Inner {
    pub(super) async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
        loop {
            let (bell, outlook) = match self.tickets.look(ticket.id) {
                Seen::Granted { fence, predecessor } => {
                    return Wake::Granted { fence, predecessor };
                }
                Seen::Look => return Wake::Look,
                Seen::Waiting(bell, outlook) => (bell, outlook),
            };
            tokio::select! {
                biased;
                () = bell.notified() => {}
                () = self.clock.sleep_until(until.min(outlook.look_at)) => {
                    return match self.tickets.look(ticket.id) {
                        Seen::Granted { fence, predecessor } => {
                            Wake::Granted { fence, predecessor }
                        }
                        _ => Wake::Look,
                    };
                }
            }
        }
    }

    /// Looks for everyone who waits; true if anything has changed.
    async fn look_around(&self) -> Result<bool> {
        let waiting = self.tickets.waiting();
        let mut changed = false;
        for some in waiting.chunks(NAMES) {
            let versions = self.versions(some).await?;
            for (ticket, outlook) in some {
                if versions.get(&ticket.name) != Some(&outlook.version) {
                    changed = true;
                    self.peek(ticket).await?;
                }
            }
        }
        Ok(changed)
    }

    async fn versions(
        &self,
        some: &[(Ticket, Outlook)],
    ) -> Result<std::collections::HashMap<crate::name::Name, i64>> {
        let mut names: Vec<_> = some.iter().map(|(ticket, _)| &ticket.name).collect();
        names.sort_unstable();
        names.dedup();
        let text = self.versions.iter().find(|(size, _)| *size >= names.len());
        let Some((size, text)) = text.or(self.versions.last()) else {
            return Ok(Default::default());
        };
        // The last one fills the places that are left.
        let filled = (0..*size).filter_map(|at| names.get(at).or(names.last()));
        let values = filled.flat_map(|name| self.key(name)).collect();
        let reply = self.run(text, values).await?;
        let mut versions = std::collections::HashMap::new();
        for row in &reply.rows {
            let space = crate::name::Namespace::new(row.text(0)?)?;
            versions.insert(crate::name::Name::new(&space, self.name_of(row, 1)?)?, row.int(2)?);
        }
        Ok(versions)
    }

    /// Looks at the name of one waiter, and changes nothing.
    async fn peek(&self, ticket: &Ticket) -> Result<()> {
        let page = self.load(&ticket.name, 0).await?;
        match page.state.find(ticket.id) {
            Some((session, Some((fence, predecessor)))) if !page.left(session).is_zero() => {
                self.tickets.hand(ticket.id, fence, predecessor);
            }
            Some((session, None)) => {
                let mut next = page.state.clone();
                let verb = Verb::Renew { id: ticket.id, ttl: page.left(session) };
                let done = step(&mut next, verb, page.now, &mut 0);
                if !matches!(done.answer, Answer::Queued { .. }) || !done.effects.is_empty() {
                    self.tickets.stir(ticket.id);
                    return Ok(());
                }
                let opens = next.opens_at(ticket.mode).since(page.now);
                let look_at = page.sent_at.after(opens.max(Duration::from_millis(1)));
                self.tickets.revise(ticket.id, Outlook { version: page.version(), look_at });
            }
            _ => self.tickets.stir(ticket.id),
        }
        Ok(())
    }
}

/// The task that looks, for as long as the engine lives.
pub(super) async fn watch(engine: Weak<Inner>) {
    let mut pace = Duration::ZERO;
    let mut losses_at = Moment::default();
    loop {
        let Some(inner) = engine.upgrade() else { return };
        let (clock, stir) = (inner.clock.clone(), Arc::clone(&inner.stir));
        let now = clock.now();
        let waits = !inner.tickets.waiting().is_empty();
        let next = if waits {
            pace = inner.poll.next(pace);
            now.after(pace.mul_f64(0.5 + fastrand::f64() / 2.0))
        } else if inner.tickets.is_empty() {
            Moment::NEVER
        } else {
            losses_at
        };
        drop(inner);
        tokio::select! {
            biased;
            () = stir.notified() => pace = Duration::ZERO,
            () = clock.sleep_until(next) => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        if let Ok(true) = inner.look_around().await {
            pace = Duration::ZERO;
        }
        if clock.now() >= losses_at && !inner.tickets.is_empty() {
            // What cannot be read now is read the next time.
            let _ = inner.losses().await;
            losses_at = clock.now().after(LOSSES);
        }
    }
}

/// How often those look who are not told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) first: Duration,
    pub(super) most: Duration,
}

impl Poll {
    fn next(self, pace: Duration) -> Duration {
        if pace.is_zero() { self.first } else { (pace * 3 / 2).min(self.most) }
    }
}
