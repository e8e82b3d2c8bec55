//! A slot: the place of one node in the quorum, whether the node is there or
//! not. A quorum opens while a minority is away, and takes it in later.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::debts::Debts;
use super::node::{Node, Trust};
use crate::claim::{LeaseId, Ticket};
use crate::clock::Clock;
use crate::engine::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// Opens a node; called again and again until it succeeds.
pub(super) type Opener = Box<dyn Fn() -> BoxFuture<Result<Arc<dyn Node>>> + Send + Sync>;

pub(super) struct NodeSlot {
    /// Where its node is, without secrets.
    pub(super) endpoint: String,
    open: Opener,
    state: Mutex<SlotState>,
    /// Whether the last request was answered.
    well: AtomicBool,
    /// What its node may still have of rounds that were given up.
    debts: Debts,
}

enum SlotState {
    Away(Option<Error>),
    Opening,
    Here(Arc<dyn Node>),
    Closed,
}

impl NodeSlot {
    pub(super) fn new(endpoint: String, open: Opener) -> Arc<Self> {
        let (state, well) = (Mutex::new(SlotState::Away(None)), AtomicBool::new(true));
        Arc::new(Self { endpoint, open, state, well, debts: Debts::default() })
    }

    /// Removes what its node may still have of earlier rounds of a ticket. What
    /// was not there may still be under way: a task looks for it again.
    pub(super) async fn pay(self: &Arc<Self>, id: LeaseId) -> Result<()> {
        self.ask_for(self.debts.unasked(id)).await
    }

    async fn ask_for(self: &Arc<Self>, bids: Vec<Ticket>) -> Result<()> {
        for bid in bids {
            let removed = self.node()?.unlock(bid.clone()).await?;
            self.debts.answered(&bid, removed);
        }
        Ok(())
    }

    /// Removes a bid, and what is owed for its ticket. A node that does not answer
    /// owes it from now on.
    pub(super) async fn let_go(self: &Arc<Self>, bid: Ticket, clock: &Clock) -> Result<bool> {
        let node = self.node()?;
        let removed = node.unlock(bid.clone()).await;
        if removed.is_err() {
            let (slot, clock) = (Arc::clone(self), clock.clone());
            Handle::current().spawn(async move { slot.owe(bid, &clock).await });
        } else {
            // What is not paid now is paid by the task that sees to it.
            let _ = self.pay(bid.id).await;
        }
        removed
    }

    /// Asks again and again for what its node may still have, or may still get: a
    /// request that it was late with. If all of this fails, the ttl does it.
    pub(super) async fn owe(self: &Arc<Self>, bid: Ticket, clock: &Clock) {
        let id = bid.id;
        if !self.debts.add(bid) {
            return;
        }
        while let Some(pause) = self.debts.pause(id) {
            clock.sleep_until(clock.now().after(pause)).await;
            // What is not paid now is paid the next time.
            let _ = self.ask_for(self.debts.of(id)).await;
        }
    }

    /// Its node, if it is there; otherwise it is looked for, apart.
    pub(super) fn node(self: &Arc<Self>) -> Result<Arc<dyn Node>> {
        let mut state = self.state();
        let why = match &mut *state {
            SlotState::Here(node) => return Ok(Arc::clone(node)),
            SlotState::Away(why) => {
                let why = why.take();
                *state = SlotState::Opening;
                let slot = Arc::clone(self);
                Handle::current().spawn(async move { slot.fill().await });
                why
            }
            SlotState::Opening | SlotState::Closed => None,
        };
        let away = || Error::new(ErrorKind::Unavailable, "the node was not reached yet");
        Err(why.unwrap_or_else(away).with("node", &self.endpoint))
    }

    /// Opens its node for the first time; says what it is good for.
    pub(super) async fn open_now(&self) -> Result<Trust> {
        *self.state() = SlotState::Opening;
        self.fill().await?;
        match &*self.state() {
            SlotState::Here(node) => Ok(node.trust()),
            _ => Err(Error::new(ErrorKind::Unavailable, "closed while it was opened")),
        }
    }

    /// Opens its node, once.
    async fn fill(&self) -> Result<()> {
        let opened = (self.open)().await.map_err(|error| error.with("node", &self.endpoint));
        match opened {
            Ok(node) => match self.slot(node) {
                Some(surplus) => surplus.close().await,
                None => Ok(()),
            },
            Err(error) => {
                self.leave_empty(&error);
                Err(error)
            }
        }
    }

    /// Gives the node back if nobody wants it any more.
    fn slot(&self, node: Arc<dyn Node>) -> Option<Arc<dyn Node>> {
        let mut state = self.state();
        if matches!(*state, SlotState::Closed) {
            return Some(node);
        }
        *state = SlotState::Here(node);
        None
    }

    fn leave_empty(&self, why: &Error) {
        let mut state = self.state();
        if !matches!(*state, SlotState::Closed) {
            *state = SlotState::Away(Some(why.clone()));
        }
    }

    /// Notes whether the node answers.
    pub(super) fn note<T>(&self, answer: &Result<T>) {
        let away = |error: &Error| error.kind() == ErrorKind::Unavailable;
        self.well.store(!answer.as_ref().err().is_some_and(away), Ordering::Relaxed);
    }

    pub(super) fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// The node to close, if there is one.
    pub(super) fn leave(&self) -> Option<Arc<dyn Node>> {
        match std::mem::replace(&mut *self.state(), SlotState::Closed) {
            SlotState::Here(node) => Some(node),
            _ => None,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for NodeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeSlot({})", self.endpoint)
    }
}
