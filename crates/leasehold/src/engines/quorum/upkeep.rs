//! Upkeep: what happens to leases that a majority has granted, until the
//! majority has let go of them.

use std::sync::Arc;
use std::time::Duration;

use super::ballot::{VoteTally, kept};
use super::bid::all_of;
use super::client::QuorumClient;
use super::node::{Kept, LockAnswer, Node};
use super::node_slot::NodeSlot;
use super::nodes::Answers;
use crate::claim::{LeaseId, Mode, Refresh, Released, Renewal, Ticket};
use crate::clock::Moment;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// Keeps tickets alive where they are, and takes them to where they are not.
/// What this client does not hold is gone: nothing here waits in a queue.
pub(super) async fn renew(client: Arc<QuorumClient>, tickets: Vec<Refresh>) -> Vec<Renewal> {
    let asked: Vec<Option<Due>> = tickets.into_iter().map(|it| Due::of(&client, it)).collect();
    let is_held: Vec<bool> = asked.iter().map(Option::is_some).collect();
    let dues: Vec<Due> = asked.into_iter().flatten().collect();
    let mut renewals = renew_held(client, dues).await.into_iter();
    let answer = |held| if held { renewals.next() } else { None };
    is_held.into_iter().map(answer).map(|it| it.unwrap_or(Renewal::Gone)).collect()
}

async fn renew_held(client: Arc<QuorumClient>, dues: Vec<Due>) -> Vec<Renewal> {
    let Some(patience) = dues.iter().map(|due| due.patience).min() else { return Vec::new() };
    let mut count = RenewalCount::new(&client, dues);
    let asked: Vec<Refresh> = count.dues.iter().map(|due| due.refresh.clone()).collect();
    let mut answers = client.table.ask(
        move |node| {
            let asked = asked.clone();
            Box::pin(async move { all_or_error(node.extend(asked).await) })
        },
        count.sent_at.after(patience),
    );
    while !count.is_decided()
        && let Some((node, answer)) = answers.next().await
    {
        count.take(node, answer);
    }
    let renewals = count.renewals();
    let gone = renewals.iter().map(|it| matches!(it, Renewal::Gone)).collect();
    Handle::current().spawn(count.top_up(answers, gone));
    renewals
}

/// A node that has an error for everything has not answered.
fn all_or_error<T>(answers: Vec<Result<T>>) -> Result<Vec<Result<T>>> {
    match answers.iter().find(|answer| answer.is_ok()) {
        None if !answers.is_empty() => {
            answers.into_iter().collect::<Result<Vec<_>>>().map(|_| Vec::new())
        }
        _ => Ok(answers),
    }
}

/// A lease that is due: its ticket, and its bid as the nodes are asked for it.
struct Due {
    id: LeaseId,
    refresh: Refresh,
    /// How long to wait for answers about it. A short extension is no reason
    /// to be in a hurry.
    patience: Duration,
}

impl Due {
    fn of(client: &QuorumClient, refresh: Refresh) -> Option<Self> {
        let (claim, _) = client.leases.recall(refresh.ticket.id)?;
        let ttl = client.within(refresh.ttl);
        Some(Self {
            id: refresh.ticket.id,
            patience: client.table.patience(ttl.max(claim.ttl)),
            refresh: Refresh { ticket: claim.ticket.in_mode(refresh.ticket.mode), ttl, ..refresh },
        })
    }
}

/// What the nodes have said of each lease so far.
struct RenewalCount {
    client: Arc<QuorumClient>,
    dues: Vec<Due>,
    sent_at: Moment,
    tallies: Vec<VoteTally>,
    /// How long the nodes that have it keep each lease.
    kept: Vec<Vec<Duration>>,
    /// Node, place of the lease, whether it was there.
    seen: Vec<(usize, usize, bool)>,
    answered: usize,
    heard: u64,
    errors: Vec<Error>,
}

impl RenewalCount {
    fn new(client: &Arc<QuorumClient>, dues: Vec<Due>) -> Self {
        Self {
            client: Arc::clone(client),
            sent_at: client.table.clock.now(),
            tallies: vec![VoteTally::default(); dues.len()],
            kept: vec![Vec::new(); dues.len()],
            seen: Vec::new(),
            answered: 0,
            heard: 0,
            errors: Vec::new(),
            dues,
        }
    }

    fn take(&mut self, node: usize, answer: Result<Vec<Result<Kept>>>) {
        self.heard |= 1 << node;
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

    fn count(&mut self, node: usize, place: usize, said: Result<Kept>) {
        match said {
            Ok(kept) => {
                self.tallies[place].count(kept.is_some());
                self.kept[place].extend(kept);
                self.seen.push((node, place, kept.is_some()));
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn is_decided(&self) -> bool {
        (0..self.dues.len()).all(|place| self.verdict(place).is_some())
    }

    /// Only what a majority had before the question came counts as held.
    fn verdict(&self, place: usize) -> Option<bool> {
        self.tallies[place].verdict(self.client.table.size())
    }

    /// How long a majority keeps it.
    fn ttl(&self, place: usize) -> Duration {
        let kept = kept(&self.kept[place], self.client.table.majority());
        self.client.within(kept.unwrap_or_default())
    }

    fn renewals(&self) -> Vec<Renewal> {
        (0..self.dues.len()).map(|place| self.renewal(place)).collect()
    }

    fn renewal(&self, place: usize) -> Renewal {
        match self.verdict(place) {
            Some(true) => Renewal::Held { ttl: self.ttl(place), sent_at: self.sent_at },
            Some(false) => {
                self.client.leases.end(self.dues[place].id);
                Renewal::Gone
            }
            None => {
                let table = &self.client.table;
                Renewal::Unknown(table.too_few(self.answered, self.heard, &self.errors))
            }
        }
    }

    /// Takes leases to the nodes that miss them, so that the loss of one node
    /// more does not end them. Only what a majority has just confirmed: to
    /// bring back what most nodes have forgotten would be a second grant. That
    /// is taken away from the nodes that still have it, once its holder was told
    /// that it is gone: until then the last node may be all that keeps others out.
    async fn top_up(mut self, mut answers: Answers<Vec<Result<Kept>>>, gone: Vec<bool>) {
        while let Some((node, answer)) = answers.next().await {
            self.take(node, answer);
        }
        let seen = std::mem::take(&mut self.seen);
        let missing = |(_, place, there): &&(usize, usize, bool)| !there && !gone[*place];
        for (node, place, _) in seen.iter().filter(missing) {
            if self.verdict(*place) == Some(true)
                && let Ok(node) = self.client.table.slots[*node].node()
            {
                self.bring(&*node, *place).await;
            }
        }
        let left: Vec<_> = seen.iter().filter(|(_, place, there)| *there && gone[*place]).collect();
        if !left.is_empty() {
            let patience = self.dues.iter().map(|due| due.patience).max();
            told(&self.client, patience.unwrap_or_default()).await;
        }
        for (node, place, _) in left {
            if let Ok(node) = self.client.table.slots[*node].node() {
                let _ = node.unlock(self.dues[*place].refresh.ticket.clone()).await;
            }
        }
    }

    async fn bring(&self, node: &dyn Node, place: usize) {
        let (due, ttl, now) = (&self.dues[place], self.ttl(place), self.client.table.clock.now());
        let Some((mut claim, fence)) = self.client.leases.recall(due.id) else { return };
        if now >= self.sent_at.after(ttl / 2) || claim.ticket.id != due.refresh.ticket.id {
            return;
        }
        let bid = claim.ticket.clone();
        claim.ttl = due.refresh.ttl.max(self.sent_at.after(ttl).since(now));
        if let Ok(LockAnswer::Vote(number, _)) = node.lock(claim, 0).await
            && number.value < fence
        {
            let _ = node.raise(bid.clone(), number, fence).await;
        }
        // It may have been released while we brought it there.
        if !self.client.leases.has(due.id, &bid) {
            let _ = node.unlock(bid).await;
        }
    }
}

/// What the nodes have said to one question about one lease.
#[derive(Default)]
struct Poll {
    tally: VoteTally,
    kept: Vec<Duration>,
    heard: u64,
    errors: Vec<Error>,
}

impl Poll {
    fn count(&mut self, node: usize, answer: Result<Kept>) {
        self.heard |= 1 << node;
        match answer {
            Ok(kept) => {
                self.tally.count(kept.is_some());
                self.kept.extend(kept);
            }
            Err(error) => self.errors.push(error),
        }
    }

    const fn answered(&self) -> usize {
        self.tally.yes + self.tally.no
    }

    fn too_few(&self, client: &QuorumClient) -> Error {
        client.table.too_few(self.answered(), self.heard, &self.errors)
    }

    /// How long a majority keeps the lease; `None` if a majority has it not.
    fn kept(&self, client: &QuorumClient) -> Result<Kept> {
        match self.tally.verdict(client.table.size()) {
            Some(true) => Ok(kept(&self.kept, client.table.majority()).map(|it| client.within(it))),
            Some(false) => Ok(None),
            None => Err(self.too_few(client)),
        }
    }
}

/// Puts a question to every node, until a majority agrees.
async fn poll(
    client: &Arc<QuorumClient>,
    ttl: Duration,
    question: impl Fn(Arc<dyn Node>) -> BoxFuture<Result<Kept>>,
) -> Poll {
    count(client, client.table.ask(question, until(client, ttl))).await
}

/// Until when answers about a lease of this ttl count.
fn until(client: &QuorumClient, ttl: Duration) -> Moment {
    client.table.clock.now().after(client.table.patience(ttl))
}

async fn count(client: &QuorumClient, mut answers: Answers<Kept>) -> Poll {
    let mut poll = Poll::default();
    while poll.tally.verdict(client.table.size()).is_none()
        && let Some((node, answer)) = answers.next().await
    {
        poll.count(node, answer);
    }
    poll
}

/// How long a majority still keeps a bid, which is kept alive there; `None` if
/// a majority has lost it.
pub(super) async fn confirm(client: &Arc<QuorumClient>, refresh: &Refresh) -> Result<Kept> {
    let question = |node: Arc<dyn Node>| -> BoxFuture<Result<Kept>> {
        let extended = node.extend(vec![refresh.clone()]);
        Box::pin(async move {
            let none = || Err(Error::new(ErrorKind::Unexpected, "a node left out its answer"));
            extended.await.pop().unwrap_or_else(none)
        })
    };
    poll(client, refresh.ttl, question).await.kept(client)
}

/// Until a holder has been told what was answered just before.
async fn told(client: &QuorumClient, patience: Duration) {
    client.table.clock.sleep_until(client.table.clock.now().after(patience)).await;
}

/// Ends what most nodes have lost and nobody believes in, and removes it from the
/// others.
pub(super) async fn let_go(client: &Arc<QuorumClient>, id: LeaseId) {
    if let Some(claim) = client.leases.end(id) {
        // It was nobody's lease any more; what stays ends with its ttl.
        let _ = remove(client, claim.ticket, claim.ttl).await;
    }
}

/// The same for one whose holder still has to be told.
fn let_go_later(client: Arc<QuorumClient>, id: LeaseId, ttl: Duration) {
    Handle::current().spawn(async move {
        told(&client, client.table.patience(ttl)).await;
        let_go(&client, id).await;
    });
}

/// Removes a lease from all nodes, with what any of its rounds has left. Those
/// that are slow get the request too.
pub(super) async fn release(client: Arc<QuorumClient>, ticket: Ticket) -> Result<Released> {
    let (bid, ttl) = match client.leases.end(ticket.id) {
        Some(claim) => (claim.ticket.in_mode(ticket.mode), claim.ttl),
        None => (all_of(&ticket), Duration::MAX),
    };
    remove(&client, bid, ttl).await
}

/// Removes a bid from all nodes.
pub(super) async fn remove(
    client: &Arc<QuorumClient>,
    bid: Ticket,
    ttl: Duration,
) -> Result<Released> {
    let question = |slot: Arc<NodeSlot>| -> BoxFuture<Result<Kept>> {
        let (bid, clock) = (bid.clone(), client.table.clock.clone());
        Box::pin(async move { Ok(slot.let_go(bid, &clock).await?.then_some(Duration::ZERO)) })
    };
    let poll = count(client, client.table.ask_seats(question, until(client, ttl))).await;
    match poll.tally.verdict(client.table.size()) {
        Some(true) => Ok(Released::Released),
        Some(false) => Ok(Released::AlreadyLost),
        None if poll.answered() < client.table.majority() => Err(poll.too_few(client)),
        None if poll.tally.yes > 0 => Ok(Released::Released),
        None => Ok(Released::AlreadyLost),
    }
}

/// Turns a writer into a reader.
pub(super) async fn convert(
    client: Arc<QuorumClient>,
    ticket: Ticket,
    to: Mode,
) -> Result<Renewal> {
    ticket.mode.check_conversion(to)?;
    let Some((claim, _)) = client.leases.recall(ticket.id) else { return Ok(Renewal::Gone) };
    let (sent_at, ttl) = (client.table.clock.now(), claim.ttl);
    let refresh = Refresh::new(claim.ticket.in_mode(to), ttl);
    let poll = poll(&client, ttl, |node| node.convert(refresh.clone())).await;
    match poll.kept(&client)? {
        Some(ttl) => {
            client.leases.change(ticket.id, |claim| claim.ticket.mode = to);
            Ok(Renewal::Held { ttl, sent_at })
        }
        None => {
            let_go_later(client, ticket.id, ttl);
            Ok(Renewal::Gone)
        }
    }
}
