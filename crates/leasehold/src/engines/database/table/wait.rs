//! Waiting for a turn, and looking for those who wait.

use std::collections::HashMap;
use std::time::Duration;

use super::client::TableClient;
use super::errand::Errand;
use super::name_versions::NameVersion;
use super::outlook::Outlook;
use super::row::NameRow;
use super::rows_sql::ROWS_MAX;
use crate::claim::{Ticket, Wake};
use crate::clock::Moment;
use crate::engine::state::{Answer, SessionId, Verb, step};
use crate::engines::database::drivers::ReplyRow;
use crate::engines::kit::waiters::TicketStatus;
use crate::error::{Error, ErrorKind, Result};
use crate::name::{Name, Namespace};

/// However soon a name may open, nobody looks more often.
const BREATH: Duration = Duration::from_millis(1);
/// How often a waiter looks whether it is our first by now.
const TURN: Duration = Duration::from_secs(5);

impl TableClient {
    /// Notes that a ticket of ours has a place.
    pub(super) fn waits(
        &self,
        ticket: &Ticket,
        session: SessionId,
        page: &NameRow,
        look_at: Moment,
    ) {
        // Whoever is found without a seat leaves the line before it is stirred: this
        // is in the other order, so that it is in the line or claims again.
        self.tickets.queued(ticket, session, Outlook { look_at, floor: page.newest() });
        self.lines.join(ticket, page.place(ticket.id).unwrap_or(0), page.version(), look_at);
        // It may have been handed the lease before it had the place.
        if !self.tickets.is_queued(ticket.id) {
            self.lines.leave(ticket.id);
        }
        self.stir.notify_one();
    }

    pub(super) async fn wait(&self, ticket: Ticket, until: Moment) -> Wake {
        loop {
            let (notify, outlook) = match self.tickets.look(ticket.id) {
                TicketStatus::Granted { fence, predecessor } => {
                    self.lines.leave(ticket.id);
                    return Wake::Granted { fence, predecessor };
                }
                TicketStatus::Look => return Wake::Look,
                TicketStatus::Waiting(notify, outlook) => (notify, outlook),
            };
            let look_at = self.look_at(&ticket, outlook);
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = self.clock.sleep_until(until.min(look_at)) => {
                    let now = self.clock.now();
                    if now >= until || (now >= outlook.look_at && self.lines.is_first(ticket.id)) {
                        return self.tickets.last_look(ticket.id);
                    }
                }
            }
        }
    }

    /// When a waiter has to see for itself.
    fn look_at(&self, ticket: &Ticket, outlook: Outlook) -> Moment {
        if self.lines.is_first(ticket.id) {
            return outlook.look_at;
        }
        outlook.look_at.max(self.clock.now().after(TURN))
    }

    /// Looks for everyone who waits: one statement for many names, and one for each
    /// that has changed, however many wait for it; true if anything has changed.
    pub(super) async fn look_around(&self) -> Result<bool> {
        let mut changed = false;
        for some in self.lines.names().chunks(ROWS_MAX) {
            let versions = self.versions_of(some.iter()).await?;
            for name in some {
                let version = versions.get(name).map(|it| it.version);
                if self.lines.is_due(name, version, self.clock.now()) {
                    changed |= self.look_at_name(name).await?;
                }
            }
        }
        Ok(changed)
    }

    /// The versions of at most [`ROWS_MAX`] names: one statement.
    pub(super) async fn versions_of<'a>(
        &self,
        names: impl Iterator<Item = &'a Name> + Send,
    ) -> Result<HashMap<Name, NameVersion>> {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        let keys: Vec<_> = names.into_iter().map(|name| self.key(name).to_vec()).collect();
        let (text, values) = self.versions.of(&keys);
        let reply = self.run(text, values).await?;
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

    /// Looks at a name for all of ours that wait for it; false if nothing has changed
    /// or it was in vain.
    async fn look_at_name(&self, name: &Name) -> Result<bool> {
        let Some(first) = self.lines.first(name) else { return Ok(false) };
        match self.load(Errand::to(name).about(first.id)).await {
            Ok(page) => self.take_in(&page, &first),
            // Whoever waits for it hears so when it claims again.
            Err(error) if is_about_one_name(&error) => {
                self.tickets.stir(first.id);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Tells all of ours what became of a name; one for whom there is something to
    /// do does it itself, because others wait for this task. True if the name has
    /// changed since the last look.
    fn take_in(&self, page: &NameRow, first: &Ticket) -> Result<bool> {
        self.hand_out(page);
        // Whoever had a place before the first that is left has none any more.
        for id in self.lines.before(&page.name, page.first()?.unwrap_or(u64::MAX)) {
            self.tickets.stir(id);
        }
        let look_at = self.tell_first(page, first);
        Ok(self.lines.looked(&page.name, page.version(), look_at))
    }

    /// Tells our first what to expect; when the name may open although it does not
    /// change.
    fn tell_first(&self, page: &NameRow, first: &Ticket) -> Moment {
        match page.state.find(first.id).filter(|(session, _)| !page.left(*session).is_zero()) {
            Some((session, None)) => self.tell_waiting(page, first, session),
            Some((_, Some(_))) => {
                page.sent_at.after(page.state.opens_at(first.mode).since(page.now))
            }
            // It has no place any more, whatever others may have been given since:
            // nobody else of ours would be looked for. Its claim enters it again.
            None => {
                self.lines.leave(first.id);
                self.tickets.stir(first.id);
                page.sent_at
            }
        }
    }

    fn tell_waiting(&self, page: &NameRow, first: &Ticket, session: SessionId) -> Moment {
        let Some(outlook) = outlook(page, first, session) else {
            self.tickets.stir(first.id);
            return page.sent_at.after(TURN);
        };
        self.tickets.revise_for(first.id, outlook);
        outlook.look_at
    }

    /// Tells those of ours that hold it, and do not know: one whose claim is on its
    /// way as well, because that may have been read before.
    fn hand_out(&self, page: &NameRow) {
        for (id, session, fence, predecessor) in page.state.grants() {
            if !page.left(session).is_zero() {
                self.hand(id, fence, predecessor);
            }
        }
    }

    /// Serves whoever can be served.
    pub(super) async fn let_time_pass(&self, name: &Name) -> Result<()> {
        self.change(Errand::to(name), |_| Ok(())).await?;
        Ok(())
    }
}

/// Whether the others have nothing to do with it: the row cannot be read.
pub(super) fn is_about_one_name(error: &Error) -> bool {
    error.kind() == ErrorKind::Unexpected
}

/// What a waiter may expect whose session lives; `None` if somebody can be served.
fn outlook(page: &NameRow, ticket: &Ticket, session: SessionId) -> Option<Outlook> {
    let mut next = page.state.clone();
    let verb = Verb::Renew { id: ticket.id, ttl: page.left(session) };
    let done = step(&mut next, verb, page.now, &mut 0);
    let waits = matches!(done.answer, Answer::Queued { .. }) && next.lacks_from().is_none();
    if !waits || !done.follow_ups.is_empty() {
        return None;
    }
    let recheck_in = next.recheck_at(ticket.id, ticket.mode).since(page.now);
    let look_at = page.sent_at.after(recheck_in.max(BREATH));
    Some(Outlook { look_at, floor: page.newest() })
}
