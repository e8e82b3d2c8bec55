//! Waiting for a turn, and looking for those who wait.

use std::collections::HashMap;
use std::time::Duration;

use super::Inner;
use super::names::TableNames;
use super::row::NameRow;
use super::text::SqlText;
use crate::claim::{Ticket, Wake};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb, step};
use crate::engines::database::drivers::ReplyRow;
use crate::engines::kit::waiters::{self, QueueOutlook, TicketStatus};
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How many names one statement asks for: the smallest of these that will do.
const NAMES: [usize; 3] = [1, 8, NAMES_MAX];
pub(super) const NAMES_MAX: usize = 64;
/// However soon a name may open, nobody looks more often.
const BREATH: Duration = Duration::from_millis(1);

/// The tickets of one client of a table.
pub(super) type Tickets = waiters::Tickets<Outlook>;

/// What a waiter knows of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outlook {
    /// The version of the row that this comes from.
    pub(super) version: i64,
    /// When the name may open although nobody says so, by our clock.
    pub(super) look_at: Moment,
    /// The newest fence then.
    pub(super) floor: u64,
}

impl QueueOutlook for Outlook {
    fn floor(&self) -> u64 {
        self.floor
    }
}

/// How to read the marks of some names.
#[derive(Debug)]
pub(super) struct NameVersions([(usize, SqlText); 3]);

/// What tells whether a name is as it was, without reading all of it.
#[derive(Debug)]
pub(super) struct NameVersion {
    pub(super) version: i64,
    /// Who holds it alone.
    pub(super) lease: Option<String>,
}

impl NameVersions {
    pub(super) fn new(names: &TableNames) -> Self {
        Self(NAMES.map(|size| (size, marks(names, size))))
    }

    pub(super) fn of(&self, count: usize) -> &(usize, SqlText) {
        self.0.iter().find(|(size, _)| *size >= count).unwrap_or(&self.0[2])
    }
}

fn marks(names: &TableNames, size: usize) -> SqlText {
    let pairs: Vec<_> = (0..size).map(|at| format!("(${}, ${})", 2 * at + 1, 2 * at + 2)).collect();
    let sql = format!(
        "SELECT namespace, name, version, lease FROM {{names}} WHERE (namespace, name) IN ({})",
        pairs.join(", ")
    );
    SqlText::new(names, &sql)
}

impl Inner {
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
