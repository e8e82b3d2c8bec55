//! The gate: local admission.
//!
//! A thousand tasks of one process that want one name stand in line here, and
//! only the first of them asks the engine. It passes the gate when it has its
//! answer, so the next one already waits at the engine while the first holds:
//! a hand-over costs two requests, however many wait, and processes take turns.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::claim::Holder;
use crate::name::{Name, NameMap};

#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<Mutex<NameMap<NameQueue>>>);

/// Those who want one name: the first is asking and not in `waiting`.
#[derive(Debug, Default)]
struct NameQueue {
    waiting: VecDeque<oneshot::Sender<GatePass>>,
    /// Who held the name when the one who asks last looked.
    holder: Option<Holder>,
}

impl Gate {
    /// Waits for the turn to ask. Dropping the future leaves the line.
    pub(crate) async fn enter(&self, name: &Name) -> GatePass {
        let Some(turn) = self.line_up(name) else { return self.pass(name) };
        match turn.await {
            Ok(pass) => pass,
            // Senders are never dropped unsent while the line exists.
            Err(_) => self.pass(name),
        }
    }

    /// The turn to ask, if nobody is before us.
    pub(crate) fn try_enter(&self, name: &Name) -> Option<GatePass> {
        match self.lines().entry(name.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(line) => drop(line.insert(NameQueue::default())),
        }
        Some(self.pass(name))
    }

    /// Who held the name when someone of this process last asked.
    pub(crate) fn holder(&self, name: &Name) -> Option<Holder> {
        self.lines().get(name).and_then(|line| line.holder.clone())
    }

    fn line_up(&self, name: &Name) -> Option<oneshot::Receiver<GatePass>> {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(name) else {
            lines.insert(name.clone(), NameQueue::default());
            return None;
        };
        let (turn, called) = oneshot::channel();
        line.waiting.push_back(turn);
        Some(called)
    }

    fn pass(&self, name: &Name) -> GatePass {
        GatePass { gate: Some(self.clone()), name: name.clone() }
    }

    fn call_next(&self, name: &Name) {
        loop {
            let mut lines = self.lines();
            let Entry::Occupied(mut line) = lines.entry(name.clone()) else { return };
            let Some(next) = line.get_mut().waiting.pop_front() else {
                line.remove();
                return;
            };
            drop(lines);
            match next.send(self.pass(name)) {
                Ok(()) => return,
                // It has left the line, and its pass must not call the next
                // one too: thousands that left would call each other.
                Err(mut pass) => pass.gate = None,
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, NameMap<NameQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to ask the engine; dropping it calls the next in line.
#[derive(Debug)]
pub(crate) struct GatePass {
    gate: Option<Gate>,
    name: Name,
}

impl GatePass {
    /// Notes who holds the name, for those in line whose time runs out.
    pub(crate) fn note(&self, holder: Option<Holder>) {
        let Some(gate) = &self.gate else { return };
        if let Some(line) = gate.lines().get_mut(&self.name) {
            line.holder = holder;
        }
    }
}

impl Drop for GatePass {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.call_next(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::name::Namespace;

    fn poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn name() -> Name {
        Name::new(&Namespace::default(), "n").unwrap()
    }

    #[test]
    fn admits_one_at_a_time_in_order() {
        let (gate, name) = (Gate::default(), name());
        let mut line: Vec<_> = (0..3).map(|_| Box::pin(gate.enter(&name))).collect();
        for at in 0..3 {
            let Poll::Ready(pass) = poll(&mut line[at]) else { panic!("number {at} has its turn") };
            line[at + 1..].iter_mut().for_each(|later| assert!(poll(later).is_pending()));
            drop(pass);
        }
        assert!(gate.lines().is_empty(), "no residue");
    }

    #[test]
    fn those_who_leave_the_line_do_not_block_it() {
        let (gate, name) = (Gate::default(), name());
        let mut first = Box::pin(gate.enter(&name));
        let Poll::Ready(pass) = poll(&mut first) else { panic!("free gate") };
        let mut line: Vec<_> = (0..10_000).map(|_| Box::pin(gate.enter(&name))).collect();
        line.iter_mut().for_each(|f| assert!(poll(f).is_pending()));
        let mut last = line.pop().unwrap();
        drop(line);
        drop(pass);
        assert!(poll(&mut last).is_ready());
        assert!(gate.lines().is_empty(), "no residue");
    }

    #[test]
    fn a_turn_called_but_never_taken_is_passed_on() {
        let (gate, name) = (Gate::default(), name());
        let mut first = Box::pin(gate.enter(&name));
        let Poll::Ready(pass) = poll(&mut first) else { panic!("free gate") };
        let (mut second, mut third) = (Box::pin(gate.enter(&name)), Box::pin(gate.enter(&name)));
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(pass);
        drop(second);
        assert!(poll(&mut third).is_ready());
    }
}
