//! Losses that were heard of before the grants they belong to.
//!
//! What an engine tells without being asked may overtake an answer of its own:
//! a lease that was taken away at once is told lost, and then granted.

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
    /// When all that this client had was lost.
    all: Moment,
    /// What is kept for less time than was said, and when that was heard.
    kept: HashMap<LeaseId, (Place, Moment)>,
}

impl Losses {
    /// This ticket was lost.
    pub(crate) fn note(&self, id: LeaseId, now: Moment) {
        let mut heard = self.heard();
        heard.tickets.retain(|_, at| now.since(*at) < REMEMBERED);
        heard.tickets.insert(id, now);
        self.any.store(true, Ordering::Release);
    }

    /// All tickets of this client were lost.
    pub(crate) fn note_all(&self, now: Moment) {
        self.heard().all = now;
        self.any.store(true, Ordering::Release);
    }

    /// This ticket is kept for so long only.
    pub(crate) fn note_kept(&self, id: LeaseId, place: Place, now: Moment) {
        let mut heard = self.heard();
        heard.kept.retain(|_, (_, at)| now.since(*at) < REMEMBERED);
        heard.kept.insert(id, (place, now));
        self.any.store(true, Ordering::Release);
    }

    /// For how long a ticket is kept only, if that was heard.
    pub(crate) fn kept(&self, id: LeaseId) -> Option<Place> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.heard().kept.get(&id).map(|(place, _)| *place)
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
    fn what_is_kept_for_less_is_remembered_for_its_ticket() {
        let (losses, id) = (Losses::default(), LeaseId::random());
        let then = Moment::default().after(1000 * SECOND);
        assert_eq!(losses.kept(id), None);
        losses.note_kept(id, Place::new(SECOND, then), then);
        assert_eq!(losses.kept(id).map(|place| place.ttl), Some(SECOND));
        assert_eq!(losses.kept(LeaseId::random()), None);
        losses.note_kept(LeaseId::random(), Place::new(SECOND, then), then.after(REMEMBERED));
        assert_eq!(losses.kept(id), None, "no answer can be on its way any more");
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
