//! The nodes: all slots of a quorum, asked at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::ballot::majority;
use super::node::Node;
use super::node_slot::NodeSlot;
use crate::clock::{Clock, Moment};
use crate::engine::{BoxFuture, Bus, Event};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::home::Handle;
use crate::mutant::{self, Mutant};

/// A node has so much of the ttl to answer, within these bounds: 50 ms at 10 s.
const SHARE: u32 = 200;
const LEAST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) slots: Vec<Arc<NodeSlot>>,
    pub(super) clock: Clock,
    pub(super) bus: Bus,
    /// How long to wait for an answer, where the user has said so.
    pub(super) patience: Option<Duration>,
    /// Whether too few nodes answer.
    suspended: AtomicBool,
}

impl Nodes {
    pub(super) fn new(slots: Vec<Arc<NodeSlot>>, clock: Clock, patience: Option<Duration>) -> Self {
        let bus = Bus::new(clock.clone());
        Self { slots, clock, bus, patience, suspended: AtomicBool::new(false) }
    }

    pub(super) fn size(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.size())
    }

    /// How long to wait for answers about a lease of this ttl.
    pub(super) fn patience(&self, ttl: Duration) -> Duration {
        self.patience.unwrap_or_else(|| (ttl / SHARE).clamp(LEAST, MOST)).min(ttl)
    }

    /// Asks every node, in parallel. The requests go on when the caller has
    /// heard enough.
    pub(super) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl Fn(Arc<dyn Node>) -> BoxFuture<Result<T>>,
        until: Moment,
    ) -> Answers<T> {
        self.ask_seats(
            |slot| match slot.node() {
                Ok(node) => question(node),
                Err(error) => Box::pin(async { Err(error) }),
            },
            until,
        )
    }

    /// The same for what is no matter of the nodes alone.
    pub(super) fn ask_seats<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl Fn(Arc<NodeSlot>) -> BoxFuture<Result<T>>,
        until: Moment,
    ) -> Answers<T> {
        let (told, answers) = unbounded_channel();
        for (index, slot) in self.slots.iter().enumerate() {
            let (table, slot, told) = (Arc::clone(self), Arc::clone(slot), told.clone());
            let asked = question(Arc::clone(&slot));
            Handle::current().spawn(async move {
                let answer = asked.await.map_err(|e| e.with("node", &slot.endpoint));
                table.note(&slot, &answer);
                // Nobody may be listening any more.
                let _ = told.send((index, answer));
            });
        }
        Answers { answers, clock: self.clock.clone(), until }
    }

    /// Notes how a node answered; tells when too few do, and when enough do
    /// again.
    pub(super) fn note<T>(&self, slot: &NodeSlot, answer: &Result<T>) {
        slot.note(answer);
        let well = self.slots.iter().filter(|slot| slot.is_well()).count();
        let suspended = well < self.majority();
        if self.suspended.swap(suspended, Ordering::Relaxed) != suspended {
            self.bus.publish(&if suspended { Event::Suspended } else { Event::Reconnected });
        }
    }

    /// What a node has refused, and not for being away.
    pub(super) fn refusal(errors: &[Error]) -> Option<&Error> {
        errors.iter().find(|error| error.kind() != ErrorKind::Unavailable)
    }

    /// The error of a request that too few nodes have given an answer to that
    /// counts; `heard` are those that gave any, a bit for each.
    pub(super) fn too_few(&self, counted: usize, heard: u64, errors: &[Error]) -> Error {
        let (size, needed) = (self.size(), self.majority());
        if let Some(error) = Self::refusal(errors) {
            let refused = |error: &Error| error.effect() == Effect::NotApplied;
            // Those that have not refused it may have done it.
            let by_all = (errors.len() == size && errors.iter().all(refused))
                || mutant::lives(Mutant::RefusedByOne);
            return if by_all { error.clone() } else { error.clone().unknown() };
        }
        let text = format!("only {counted} of {size} nodes count and {needed} are needed");
        let error = Error::new(ErrorKind::Unavailable, text).unknown();
        let silent = self.slots.iter().enumerate().filter(|(node, _)| heard >> node & 1 == 0);
        let silent = silent.map(|(_, slot)| format!("{} did not answer in time", slot.endpoint));
        let why: Vec<String> = errors.iter().map(Error::to_string).chain(silent).collect();
        if why.is_empty() { error } else { error.caused_by(why.join("; ")) }
    }
}

/// Answers as they come in.
pub(super) struct Answers<T> {
    answers: UnboundedReceiver<(usize, Result<T>)>,
    clock: Clock,
    until: Moment,
}

impl<T> Answers<T> {
    /// The next answer and the place of its node; `None` once all have
    /// answered, or time is up.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        tokio::select! {
            biased;
            answer = self.answers.recv() => answer,
            () = self.clock.sleep_until(self.until) => None,
        }
    }
}
