//! A round: one claim put to all nodes, until it is decided what it is worth.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::ballot::{Decision, Vote, decide, kept};
use super::client::QuorumClient;
use super::fate::Fate;
use super::node::{LockAnswer, Number};
use super::node_slot::NodeSlot;
use super::nodes::Nodes;
use crate::claim::{Claim, Holder};
use crate::clock::{Moment, wall_micros};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::home::Handle;

/// What a task says.
enum Told {
    LockAnswer(Result<LockAnswer>),
    Raised(bool),
    /// What it had taken is given back.
    Cleaned,
}

/// What came of a round.
#[derive(Debug)]
pub(super) enum RoundOutcome {
    Granted {
        fence: u64,
        ttl: Duration,
        sent_at: Moment,
        fate: watch::Sender<Fate>,
    },
    /// Someone else has enough of it; or nobody has, and it is worth to try
    /// again soon.
    Busy {
        holder: Option<Holder>,
        split: bool,
    },
    Failed(Error),
}

pub(super) struct Round {
    client: Arc<QuorumClient>,
    ttl: Duration,
    until: Moment,
    sent_at: Moment,
    fate: watch::Sender<Fate>,
    told: UnboundedReceiver<(usize, Told)>,
    votes: Vec<Vote>,
    /// How long the nodes that voted keep it.
    kept: Vec<Duration>,
    busy: Vec<Option<Holder>>,
    errors: Vec<Error>,
    /// Which nodes have answered in any way: a bit for each.
    heard: u64,
    /// Which nodes have nothing of it any more, once it is given up.
    cleaned: u64,
}

impl Round {
    /// Sends the claim of a bid to every node.
    pub(super) fn open(client: &Arc<QuorumClient>, claim: &Claim) -> Self {
        let (sender, told) = unbounded_channel();
        let table = &client.table;
        let sent_at = table.clock.now();
        let round = Self {
            client: Arc::clone(client),
            ttl: claim.ttl,
            until: sent_at.after(table.patience(claim.ttl)),
            sent_at,
            fate: watch::Sender::new(Fate::Open),
            told,
            votes: Vec::new(),
            kept: Vec::new(),
            busy: Vec::new(),
            errors: Vec::new(),
            heard: 0,
            cleaned: 0,
        };
        let floor = floor();
        for index in 0..table.size() {
            let task = NodeTask {
                table: Arc::clone(table),
                index,
                claim: claim.clone(),
                fate: round.fate.subscribe(),
                told: sender.clone(),
            };
            Handle::current().spawn(task.run(floor));
        }
        round
    }

    /// Waits for as many answers as it takes, and no longer.
    pub(super) async fn close(mut self) -> RoundOutcome {
        let needed = self.client.table.majority();
        while decide(&self.votes, needed) == Decision::Open && self.can_win() {
            match self.next().await {
                Some(told) => self.count(told),
                None => break,
            }
        }
        match decide(&self.votes, needed) {
            Decision::Open => self.give_up().await,
            Decision::Fence(fence) => self.grant(fence).await,
            Decision::Raise { fence, lagging } => self.raise(fence, &lagging).await,
        }
    }

    fn can_win(&self) -> bool {
        let table = &self.client.table;
        self.busy.len() + self.errors.len() <= table.size() - table.majority()
    }

    async fn next(&mut self) -> Option<(usize, Told)> {
        tokio::select! {
            biased;
            told = self.told.recv() => told,
            () = self.client.table.clock.sleep_until(self.until) => None,
        }
    }

    fn count(&mut self, (node, told): (usize, Told)) {
        match told {
            Told::LockAnswer(answer) => {
                self.heard |= 1 << node;
                self.count_answer(node, answer);
            }
            Told::Cleaned => self.cleaned |= 1 << node,
            Told::Raised(_) => {}
        }
    }

    fn count_answer(&mut self, node: usize, answer: Result<LockAnswer>) {
        match answer {
            Ok(LockAnswer::Vote(number, kept)) => {
                self.votes.push(Vote { node, value: number.value });
                self.kept.push(kept);
            }
            Ok(LockAnswer::Busy(holder)) => self.busy.push(holder),
            Err(error) => self.errors.push(error),
        }
    }

    /// The second phase. Every node of the quorum must agree, in time.
    async fn raise(mut self, fence: u64, lagging: &[Vote]) -> RoundOutcome {
        let nodes = lagging.iter().fold(0, |nodes, vote| nodes | 1 << vote.node);
        self.fate.send_replace(Fate::Raise { fence, nodes });
        let mut missing = lagging.len();
        while missing > 0 {
            match self.next().await {
                Some((_, Told::Raised(true))) => missing -= 1,
                Some((_, Told::Raised(false))) | None => return self.give_up().await,
                // A vote that comes now proves nothing about this fence.
                Some(told) => self.count(told),
            }
        }
        self.grant(fence).await
    }

    /// Replies that took so long that the lease is over are worth nothing.
    async fn grant(self, fence: u64) -> RoundOutcome {
        let table = &self.client.table;
        let ttl = kept(&self.kept, table.majority()).unwrap_or_default().min(self.ttl);
        let worth = ttl.saturating_sub(self.client.profile.drift(ttl));
        if table.clock.now() >= self.sent_at.after(worth) {
            return self.give_up().await;
        }
        self.fate.send_replace(Fate::Granted(fence));
        RoundOutcome::Granted { fence, ttl, sent_at: self.sent_at, fate: self.fate }
    }

    /// Whether a node that has voted still has to clean up. Nobody waits for
    /// those that are silent.
    fn is_unclean(&self) -> bool {
        self.votes.iter().any(|vote| self.cleaned >> vote.node & 1 == 0)
    }

    /// Gives back what was taken, and waits for it a little: who comes next
    /// should not find it.
    async fn give_up(mut self) -> RoundOutcome {
        self.fate.send_replace(Fate::GivenUp);
        self.until = self.client.table.clock.now().after(self.until.since(self.sent_at));
        while self.is_unclean() {
            match self.next().await {
                Some(told) => self.count(told),
                None => break,
            }
        }
        let table = &self.client.table;
        let answered = self.votes.len() + self.busy.len();
        if answered < table.majority() {
            // Whatever was taken is given back: it is as if nobody had been asked.
            if let Some(refusal) = Nodes::refusal(&self.errors) {
                return RoundOutcome::Failed(refusal.clone());
            }
            return RoundOutcome::Failed(table.too_few(answered, self.heard, &self.errors));
        }
        let refused = |error: &Error| error.kind() == ErrorKind::Invalid;
        if let Some(error) = self.errors.into_iter().find(refused) {
            return RoundOutcome::Failed(error);
        }
        let split = self.busy.len() < table.majority();
        RoundOutcome::Busy { holder: agreed(self.busy, table.majority()), split }
    }
}

/// The holder that nodes have named, with its fence if a majority knows it.
fn agreed(named: Vec<Option<Holder>>, majority: usize) -> Option<Holder> {
    let named: Vec<Holder> = named.into_iter().flatten().collect();
    let sharing = |fence| named.iter().filter(|holder| holder.fence == fence).count();
    let known = named.iter().find(|holder| sharing(holder.fence) >= majority);
    let unsure = || named.first().map(|holder| Holder { fence: None, ..holder.clone() });
    known.cloned().or_else(unsure)
}

/// No number is below this: a counter that was lost goes on above the numbers
/// it had given, as long as clocks are right. It moves once a second only, so
/// that the nodes of a round find the same number more often than not.
fn floor() -> u64 {
    // Beyond it a script would lose digits.
    const MOST: u64 = 1 << 52;
    (wall_micros() / 1_000_000 * 1_000_000).min(MOST)
}

/// What a lock has left on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftover {
    Nothing,
    Lease,
    /// It may be there, or may get there yet.
    Unknown,
}

impl Leftover {
    fn by(answer: &Result<LockAnswer>) -> Self {
        match answer {
            Ok(LockAnswer::Vote(..)) => Self::Lease,
            Err(error) if error.effect() == Effect::Unknown => Self::Unknown,
            Ok(LockAnswer::Busy(_)) | Err(_) => Self::Nothing,
        }
    }
}

/// The part of a round that concerns one node: its requests, one after the
/// other, also when nobody waits for them any more.
struct NodeTask {
    table: Arc<Nodes>,
    index: usize,
    claim: Claim,
    fate: watch::Receiver<Fate>,
    told: UnboundedSender<(usize, Told)>,
}

impl NodeTask {
    async fn run(mut self, floor: u64) {
        let slot = Arc::clone(&self.table.slots[self.index]);
        let answer = self.lock(&slot, floor).await;
        self.table.note(&slot, &answer);
        let mut number = match &answer {
            Ok(LockAnswer::Vote(number, _)) => Some(*number),
            Ok(LockAnswer::Busy(_)) | Err(_) => None,
        };
        let left = Leftover::by(&answer);
        let late = *self.fate.borrow() == Fate::Ended;
        self.tell(Told::LockAnswer(answer));
        loop {
            let fate = *self.fate.borrow_and_update();
            match fate {
                Fate::Open => {}
                Fate::Raise { fence, nodes } => {
                    if let Some(seen) = number.filter(|_| nodes >> self.index & 1 == 1) {
                        number = None;
                        let raised = self.raise(&slot, seen, fence).await;
                        self.tell(Told::Raised(raised));
                    }
                }
                Fate::Granted(fence) => {
                    if let Some(seen) = number.filter(|seen| seen.value < fence) {
                        self.raise(&slot, seen, fence).await;
                    }
                    return;
                }
                Fate::GivenUp => return self.clean(&slot, left).await,
                Fate::Ended if late => return self.clean(&slot, left).await,
                Fate::Ended => return self.clean(&slot, Leftover::Nothing).await,
            }
            if self.fate.changed().await.is_err() {
                return;
            }
        }
    }

    async fn clean(&self, slot: &Arc<NodeSlot>, left: Leftover) {
        let cleaned = left == Leftover::Nothing || self.unlock(slot, left).await;
        self.tell(Told::Cleaned);
        if !cleaned {
            slot.owe(self.claim.ticket.clone(), &self.table.clock).await;
        }
    }

    /// Whether it is not ours any more, and will not be. A lock that was not
    /// answered may still arrive after an unlock that found nothing.
    async fn unlock(&self, slot: &Arc<NodeSlot>, left: Leftover) -> bool {
        let Ok(node) = slot.node() else { return false };
        match node.unlock(self.claim.ticket.clone()).await {
            Ok(removed) => removed || left == Leftover::Lease,
            Err(_) => false,
        }
    }

    async fn lock(&self, slot: &Arc<NodeSlot>, floor: u64) -> Result<LockAnswer> {
        let answer = self.ask(slot, floor).await;
        answer.map_err(|error| error.with("node", &slot.endpoint))
    }

    /// A node that has not let go of an earlier round yet is not asked: it would
    /// be in its own way there.
    async fn ask(&self, slot: &Arc<NodeSlot>, floor: u64) -> Result<LockAnswer> {
        if let Err(error) = slot.pay(self.claim.ticket.id).await {
            let text = "the node has not let go of an earlier try yet";
            return Err(Error::new(error.kind(), text).caused_by(error));
        }
        if matches!(*self.fate.borrow(), Fate::GivenUp | Fate::Ended) {
            let text = "the node had to let go of an earlier try first, and that took too long";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        slot.node()?.lock(self.claim.clone(), floor).await
    }

    async fn raise(&self, slot: &Arc<NodeSlot>, seen: Number, fence: u64) -> bool {
        let Ok(node) = slot.node() else { return false };
        node.raise(self.claim.ticket.clone(), seen, fence).await.unwrap_or(false)
    }

    fn tell(&self, told: Told) {
        // The round may be over.
        let _ = self.told.send((self.index, told));
    }
}
