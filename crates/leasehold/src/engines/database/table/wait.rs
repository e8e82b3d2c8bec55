//! Waiting for a turn, and looking for those who wait.

use std::collections::HashMap;
use std::time::Duration;

use super::client::TableClient;
use super::name_versions::{NAMES_MAX, NameVersion};
use super::outlook::Outlook;
use super::row::NameRow;
use crate::claim::{Ticket, Wake};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb, step};
use crate::engines::database::drivers::ReplyRow;
use crate::engines::kit::waiters::TicketStatus;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// However soon a name may open, nobody looks more often.
const BREATH: Duration = Duration::from_millis(1);

impl TableClient {
    pub(super) async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
        loop {
            let (notify, outlook) = match self.tickets.look(ticket.id) {
                TicketStatus::Granted { fence, predecessor } => {
                    return Wake::Granted { fence, predecessor };
                }
                TicketStatus::Look => return Wake::Look,
                TicketStatus::Waiting(notify, outlook) => (notify, outlook),
            };
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = self.clock.sleep_until(until.min(outlook.look_at)) => {
                    return self.tickets.last_look(ticket.id);
                }
            }
        }
    }

    /// Looks for everyone who waits, with one statement for many; true if
    /// anything has changed.
    pub(super) async fn look_around(&self) -> Result<bool> {
        let mut changed = false;
        for some in self.tickets.waiting().chunks(NAMES_MAX) {
            let marks = self.marks_of(some.iter().map(|(ticket, _)| &ticket.name)).await?;
            for (ticket, outlook) in some {
                if marks.get(&ticket.name).map(|mark| mark.version) != Some(outlook.version) {
                    changed = true;
                    self.peek(ticket).await?;
                }
            }
        }
        Ok(changed)
    }

    /// The marks of at most [`NAMES_MAX`] names: one statement.
    pub(super) async fn marks_of<'a>(
        &self,
        names: impl Iterator<Item = &'a Name> + Send,
    ) -> Result<HashMap<Name, NameVersion>> {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        let (size, text) = self.marks.of(names.len());
        // The last one fills the places that are left.
        let filled = (0..*size).filter_map(|at| names.get(at).or(names.last()));
        let reply = self.run(text, filled.flat_map(|name| self.key(name)).collect()).await?;
        let read = |row: &ReplyRow| {
            let lease = row.maybe_text(3)?.map(Into::into);
            Ok((self.full_name(row, 0)?, NameVersion { version: row.int(2)?, lease }))
        };
        reply.rows.iter().map(read).collect()
    }

    /// A name from the column of its namespace and the next.
    pub(super) fn full_name(&self, row: &ReplyRow, at: usize) -> Result<Name> {
        Name::new(&Namespace::new(row.text(at)?)?, self.name_of(row, at + 1)?)
    }

    /// Looks at the name of one waiter, and changes nothing.
    async fn peek(&self, ticket: &Ticket) -> Result<()> {
        let page = self.load(&ticket.name, 0).await?;
        match page.state.find(ticket.id) {
            Some((session, Some((fence, predecessor)))) if !page.left(session).is_zero() => {
                self.tickets.hand(ticket.id, fence, predecessor);
            }
            Some((session, None)) => match outlook(&page, ticket, session) {
                Some(outlook) => self.tickets.revise_for(ticket.id, outlook),
                None => self.tickets.stir(ticket.id),
            },
            _ => self.tickets.stir(ticket.id),
        }
        Ok(())
    }
}

/// What a waiter may expect; `None` if there is reason to claim again.
fn outlook(page: &NameRow, ticket: &Ticket, session: SessionId) -> Option<Outlook> {
    let mut next = page.state.clone();
    let verb = Verb::Renew { id: ticket.id, ttl: page.left(session) };
    let done = step(&mut next, verb, page.now, &mut 0);
    if !matches!(done.answer, Answer::Queued { .. }) || !done.follow_ups.is_empty() {
        return None;
    }
    let opens = next.opens_at(ticket.mode).since(page.now);
    let look_at = page.sent_at.after(opens.max(BREATH));
    Some(Outlook { version: page.version(), look_at, floor: page.newest() })
}
