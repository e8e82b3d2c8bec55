//! Losses that were heard of before the grants they belong to.
//!
//! What an engine tells without being asked may overtake an answer of its own:
//! a lease that was taken away at once is told lost, and then granted; one that
//! is kept for less is granted for more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::{LeaseId, Place};
use crate::clock::Moment;

/// Longer than any answer is on its way.
const REMEMBERED: Duration = Duration::from_secs(300);

/// What was lost that nobody here held, and when that was heard.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Whether there is any: most clients never hear of one.
    any: AtomicBool,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    tickets: HashMap<LeaseId, Moment>,
    /// What less is kept of than was said.
    cuts: HashMap<LeaseId, (Place, Moment)>,
    /// When all that this client had was lost.
    all: Moment,
}

impl Losses {
    /// This ticket was lost.
    pub(crate) fn note(&self, id: LeaseId, now: Moment) {
        let mut heard = self.heard();
        heard.tickets.retain(|_, at| now.since(*at) < REMEMBERED);
        heard.tickets.insert(id, now);
        self.any.store(true, Ordering::Release);
    }

    /// No more than this is kept of a ticket.
    pub(crate) fn note_cut(&self, id: LeaseId, place: Place, now: Moment) {
        let mut heard = self.heard();
        heard.cuts.retain(|_, (_, at)| now.since(*at) < REMEMBERED);
        heard.cuts.insert(id, (place, now));
        self.any.store(true, Ordering::Release);
    }

    /// Whoever holds it knows.
    pub(crate) fn forget_cut(&self, id: LeaseId) {
        self.heard().cuts.remove(&id);
    }

    /// What is kept of a ticket, if that was told to be less.
    pub(crate) fn cut(&self, id: LeaseId) -> Option<Place> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.heard().cuts.get(&id).map(|(place, _)| *place)
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
        sent_at <= heard.all || heard.tickets.get(&id).is_some_and(|at| sent_at <= *at)
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
}
