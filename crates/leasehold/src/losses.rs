//! Losses that were heard of before the grants they belong to.
//!
//! What an engine tells without being asked may overtake an answer of its own:
//! a lease that was taken away at once is told lost, and then granted; one that
//! is kept for less is granted for more.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::{LeaseId, Place};
use crate::clock::Moment;
use crate::name::Same;
use crate::shrink::shrink;

/// Longer than any answer is on its way.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How many are forgotten in one go.
const SOME: usize = 1000;

/// What was lost that nobody here held, and when that was heard.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Whether there is any: most clients never hear of one.
    any: AtomicBool,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    tickets: Remembered<()>,
    /// What less is kept of than was said.
    cuts: Remembered<Place>,
    /// When all that this client had was lost.
    all: Moment,
}

/// What was heard of tickets lately.
#[derive(Debug)]
struct Remembered<T> {
    heard: HashMap<LeaseId, (T, Moment), BuildHasherDefault<Same>>,
    /// The oldest first: what is forgotten costs no search.
    order: BTreeSet<(Moment, LeaseId)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { heard: HashMap::default(), order: BTreeSet::new() }
    }
}

impl<T> Remembered<T> {
    fn note(&mut self, id: LeaseId, what: T, now: Moment) {
        self.forget_old(now, 2);
        if let Some((_, before)) = self.heard.insert(id, (what, now)) {
            self.order.remove(&(before, id));
        }
        self.order.insert((now, id));
    }

    fn forget(&mut self, id: LeaseId) {
        if let Some((_, at)) = self.heard.remove(&id) {
            self.order.remove(&(at, id));
        }
        shrink(&mut self.heard);
    }

    /// Forgets some of what is old.
    fn forget_old(&mut self, now: Moment, most: usize) {
        for _ in 0..most {
            let Some((at, id)) = self.order.first().copied() else { return };
            if now.since(at) < REMEMBERED {
                return;
            }
            self.forget(id);
        }
    }

    /// When the oldest is to be forgotten.
    fn next(&self) -> Moment {
        self.order.first().map_or(Moment::NEVER, |(at, _)| at.after(REMEMBERED))
    }
}

impl Losses {
    /// This ticket was lost.
    pub(crate) fn note(&self, id: LeaseId, now: Moment) {
        self.heard().tickets.note(id, (), now);
        self.any.store(true, Ordering::Release);
    }

    /// No more than this is kept of a ticket.
    pub(crate) fn note_cut(&self, id: LeaseId, place: Place, now: Moment) {
        self.heard().cuts.note(id, place, now);
        self.any.store(true, Ordering::Release);
    }

    /// Whoever holds it knows.
    pub(crate) fn forget_cut(&self, id: LeaseId) {
        self.heard().cuts.forget(id);
    }

    /// What is kept of a ticket, if that was told to be less.
    pub(crate) fn cut(&self, id: LeaseId) -> Option<Place> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.heard().cuts.heard.get(&id).map(|(place, _)| *place)
    }

    /// When there is something to forget.
    pub(crate) fn next_forgotten(&self) -> Moment {
        if !self.any.load(Ordering::Acquire) {
            return Moment::NEVER;
        }
        let heard = self.heard();
        heard.tickets.next().min(heard.cuts.next())
    }

    /// Forgets some of what is old.
    pub(crate) fn forget_some(&self, now: Moment) {
        let mut heard = self.heard();
        heard.tickets.forget_old(now, SOME);
        heard.cuts.forget_old(now, SOME);
    }

    /// All tickets of this client were lost.
    pub(crate) fn note_all(&self, now: Moment) {
        self.heard().all = now;
        self.any.store(true, Ordering::Release);
    }

    /// Whether a ticket was lost after it was asked for at `sent_at`.
    pub(crate) fn concern(&self, id: LeaseId, sent_at: Moment) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let heard = self.heard();
        let told = heard.tickets.heard.get(&id);
        sent_at <= heard.all || told.is_some_and(|(_, at)| sent_at <= *at)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_loss_concerns_what_was_asked_for_before_it() {
        let (losses, id) = (Losses::default(), LeaseId::random());
        let then = Moment::default().after(1000 * SECOND);
        assert!(!losses.concern(id, then));
        losses.note(id, then);
        assert!(losses.concern(id, then.before(SECOND)));
        assert!(!losses.concern(id, then.after(SECOND)), "asked for again");
        assert!(!losses.concern(LeaseId::random(), then.before(SECOND)), "another ticket");
        losses.note_all(then.after(2 * SECOND));
        assert!(losses.concern(LeaseId::random(), then.after(SECOND)));
    }

    #[test]
    fn losses_are_forgotten_when_no_answer_can_be_on_its_way() {
        let (losses, id) = (Losses::default(), LeaseId::random());
        let then = Moment::default().after(1000 * SECOND);
        losses.note(id, then);
        losses.note(LeaseId::random(), then.after(REMEMBERED));
        assert!(!losses.concern(id, then));
    }

    #[test]
    fn what_is_forgotten_leaves_nothing_even_if_nothing_is_lost_any_more() {
        let losses = Losses::default();
        let then = Moment::default().after(1000 * SECOND);
        let place = Place::new(SECOND, then);
        for _ in 0..10_000 {
            losses.note(LeaseId::random(), then);
            losses.note_cut(LeaseId::random(), place, then);
        }
        let twice = LeaseId::random();
        [then, then.after(SECOND)].into_iter().for_each(|at| losses.note(twice, at));
        let now = then.after(REMEMBERED);
        while losses.next_forgotten() <= now {
            losses.forget_some(now);
        }
        assert!(losses.concern(twice, then.after(SECOND)), "heard of later");
        let heard = losses.heard();
        assert_eq!((heard.tickets.order.len(), heard.cuts.order.len()), (1, 0));
        assert!(heard.tickets.heard.capacity() + heard.cuts.heard.capacity() < 5_000);
    }
}
