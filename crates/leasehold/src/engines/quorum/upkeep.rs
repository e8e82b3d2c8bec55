//! Upkeep: what happens to leases that a majority has granted, until the
//! majority has let go of them.

use std::sync::Arc;

use super::Inner;
use super::ballot::Tally;
use super::node::{Answer, Node};
use super::table::Answers;
use crate::claim::{Mode, Refresh, Released, Renewal, Ticket};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// Keeps tickets alive where they are, and takes them to where they are not.
pub(super) async fn renew(inner: Arc<Inner>, tickets: Vec<Refresh>) -> Vec<Renewal> {
    let Some(ttl) = tickets.iter().map(|refresh| refresh.ttl).min() else { return Vec::new() };
    let mut count = Count::new(&inner, tickets, ttl);
    let asked = count.tickets.clone();
    let mut answers = inner.table.ask(
        move |node| {
            let asked = asked.clone();
            Box::pin(async move { all_or_error(node.extend(asked).await) })
        },
        count.sent_at.after(inner.table.patience(ttl)),
    );
    while !count.is_decided()
        && let Some((node, answer)) = answers.next().await
    {
        count.take(node, answer);
    }
    let renewals = count.renewals();
    Handle::current().spawn(count.top_up(answers));
    renewals
}

/// A node that has an error for everything has not answered.
fn all_or_error(answers: Vec<Result<bool>>) -> Result<Vec<Result<bool>>> {
    match answers.iter().find(|answer| answer.is_ok()) {
        None if !answers.is_empty() => {
            answers.into_iter().collect::<Result<Vec<_>>>().map(|_| Vec::new())
        }
        _ => Ok(answers),
    }
}

/// What the nodes have said of each ticket so far.
struct Count {
    inner: Arc<Inner>,
    tickets: Vec<Refresh>,
    sent_at: Moment,
    ttl: std::time::Duration,
    tallies: Vec<Tally>,
    /// Tickets that a node does not have: node, place.
    missing: Vec<(usize, usize)>,
    answered: usize,
    errors: Vec<Error>,
}

impl Count {
    fn new(inner: &Arc<Inner>, tickets: Vec<Refresh>, ttl: std::time::Duration) -> Self {
        Self {
            inner: Arc::clone(inner),
            sent_at: inner.table.clock.now(),
            ttl,
            tallies: vec![Tally::default(); tickets.len()],
            missing: Vec::new(),
            answered: 0,
            errors: Vec::new(),
            tickets,
        }
    }

    fn take(&mut self, node: usize, answer: Result<Vec<Result<bool>>>) {
        match answer {
            Err(error) => self.errors.push(error),
            Ok(said) => {
                self.answered += 1;
                for (place, said) in said.into_iter().enumerate() {
                    self.count(node, place, said);
                }
            }
        }
    }

    fn count(&mut self, node: usize, place: usize, said: Result<bool>) {
        match said {
            Ok(there) => {
                self.tallies[place].count(there);
                if !there {
                    self.missing.push((node, place));
                }
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn is_decided(&self) -> bool {
        self.tallies.iter().all(|tally| tally.verdict(self.inner.table.size()).is_some())
    }

    fn renewals(&self) -> Vec<Renewal> {
        self.tickets.iter().zip(&self.tallies).map(|(it, tally)| self.renewal(it, *tally)).collect()
    }

    /// Only what a majority had before the question came counts as held.
    fn renewal(&self, refresh: &Refresh, tally: Tally) -> Renewal {
        let (id, ttl) = (refresh.ticket.id, refresh.ttl);
        match tally.verdict(self.inner.table.size()) {
            Some(true) => {
                self.inner.holds.change(id, |claim| claim.ttl = ttl);
                Renewal::Held { ttl, sent_at: self.sent_at }
            }
            Some(false) => {
                self.inner.holds.end(id);
                Renewal::Gone
            }
            None => Renewal::Unknown(self.inner.table.too_few(self.answered, self.errors.clone())),
        }
    }

    /// Takes leases to the nodes that miss them, so that the loss of one node
    /// more does not end them. Only what a majority has just confirmed: to
    /// bring back what most nodes have forgotten would be a second grant.
    async fn top_up(mut self, mut answers: Answers<Vec<Result<bool>>>) {
        while let Some((node, answer)) = answers.next().await {
            self.take(node, answer);
        }
        for (node, place) in std::mem::take(&mut self.missing) {
            let confirmed = self.tallies[place].verdict(self.inner.table.size()) == Some(true);
            let now = self.inner.table.clock.now();
            if confirmed && now < self.sent_at.after(self.ttl / 2) {
                self.bring(node, self.tickets[place].ticket.clone()).await;
            }
        }
    }

    async fn bring(&self, node: usize, ticket: Ticket) {
        let Some((claim, fence)) = self.inner.holds.recall(ticket.id) else { return };
        let Ok(node) = self.inner.table.seats[node].node() else { return };
        if let Ok(Answer::Vote(number)) = node.lock(claim, 0).await
            && number.value < fence
        {
            let _ = node.raise(ticket.clone(), number, fence).await;
        }
        // It may have been released while we brought it there.
        if self.inner.holds.recall(ticket.id).is_none() {
            let _ = node.unlock(ticket).await;
        }
    }
}

/// Puts a yes-or-no question to every node, until a majority agrees.
async fn poll(
    inner: &Arc<Inner>,
    until: Moment,
    question: impl Fn(Arc<dyn Node>) -> crate::engine::BoxFuture<Result<bool>>,
) -> (Tally, Vec<Error>) {
    let mut answers = inner.table.ask(question, until);
    let (mut tally, mut errors) = (Tally::default(), Vec::new());
    while tally.verdict(inner.table.size()).is_none()
        && let Some((_, answer)) = answers.next().await
    {
        match answer {
            Ok(said) => tally.count(said),
            Err(error) => errors.push(error),
        }
    }
    (tally, errors)
}

/// Whether a majority still has the lease; it is kept alive there.
pub(super) async fn confirm(inner: &Arc<Inner>, refresh: &Refresh) -> Result<bool> {
    let until = inner.table.clock.now().after(inner.table.patience(refresh.ttl));
    let question = |node: Arc<dyn Node>| -> crate::engine::BoxFuture<Result<bool>> {
        let extended = node.extend(vec![refresh.clone()]);
        Box::pin(async move {
            let none = || Err(Error::new(ErrorKind::Unexpected, "a node left out its answer"));
            extended.await.pop().unwrap_or_else(none)
        })
    };
    let (tally, errors) = poll(inner, until, question).await;
    let answered = tally.yes + tally.no;
    tally.verdict(inner.table.size()).ok_or_else(|| inner.table.too_few(answered, errors))
}

/// Removes a lease from all nodes. Those that are slow get the request too.
pub(super) async fn release(inner: Arc<Inner>, ticket: Ticket) -> Result<Released> {
    let known = inner.holds.recall(ticket.id);
    let ttl = known.map_or(std::time::Duration::MAX, |(claim, _)| claim.ttl);
    inner.holds.end(ticket.id);
    let until = inner.table.clock.now().after(inner.table.patience(ttl));
    let (tally, errors) = poll(&inner, until, |node| node.unlock(ticket.clone())).await;
    match tally.verdict(inner.table.size()) {
        Some(true) => Ok(Released::Released),
        Some(false) => Ok(Released::AlreadyLost),
        None if tally.yes + tally.no < inner.table.majority() => {
            Err(inner.table.too_few(tally.yes + tally.no, errors))
        }
        None if tally.yes > 0 => Ok(Released::Released),
        None => Ok(Released::AlreadyLost),
    }
}

/// Turns a writer into a reader.
pub(super) async fn convert(inner: Arc<Inner>, ticket: Ticket, to: Mode) -> Result<Renewal> {
    if (ticket.mode, to) != (Mode::Write, Mode::Read) {
        return Err(Error::invalid(format!(
            "a {} lease cannot be converted to {to}: only write to read, because two readers that \
             both want to write would wait for each other",
            ticket.mode
        )));
    }
    let Some((claim, _)) = inner.holds.recall(ticket.id) else { return Ok(Renewal::Gone) };
    let (sent_at, ttl) = (inner.table.clock.now(), claim.ttl);
    let refresh = Refresh::new(ticket.clone().in_mode(to), ttl);
    let until = sent_at.after(inner.table.patience(ttl));
    let (tally, errors) = poll(&inner, until, |node| node.convert(refresh.clone())).await;
    match tally.verdict(inner.table.size()) {
        Some(true) => {
            inner.holds.change(ticket.id, |claim| claim.ticket.mode = to);
            Ok(Renewal::Held { ttl, sent_at })
        }
        Some(false) => {
            inner.holds.end(ticket.id);
            Ok(Renewal::Gone)
        }
        None => Err(inner.table.too_few(tally.yes + tally.no, errors)),
    }
}
