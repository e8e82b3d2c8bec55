//! The schedule: which hold is due for a look, and when.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{LeaseId, RENEW_FRACTION};
use crate::clock::Moment;
use crate::hold::{Hold, Timing};
use crate::name::Same;
use crate::shrink::shrink;

/// Renewals fall on this many points of a renewal interval, or up to twice as
/// many, so that many holds share a request.
const POINTS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Schedule {
    plan: Mutex<Plan>,
    alarm: Notify,
    /// Shifts the points, so that clients do not all renew at once.
    phase: u64,
}

#[derive(Debug)]
struct Plan {
    /// By the moment at which each is due, which it knows itself, too.
    calendar: BTreeMap<(Moment, LeaseId), Arc<Hold>>,
    /// All that are kept, those that are due at no moment as well.
    kept: HashMap<LeaseId, Arc<Hold>, BuildHasherDefault<Same>>,
    asleep_until: Moment,
    closed: bool,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        let plan = Plan {
            calendar: BTreeMap::new(),
            kept: HashMap::default(),
            asleep_until: Moment::NEVER,
            closed: false,
        };
        Self { plan: Mutex::new(plan), alarm: Notify::new(), phase: fastrand::u64(..1 << 40) }
    }

    /// Looks after `hold` from now on, or looks again when it should next.
    pub(crate) fn keep(&self, hold: &Arc<Hold>) {
        self.keep_from(hold, Moment::default());
    }

    /// Like [`Schedule::keep`], but lets a failed renewal rest until `earliest`.
    pub(crate) fn keep_from(&self, hold: &Arc<Hold>, earliest: Moment) {
        self.put(hold, || {
            let Timing { renew_at, ends_at, ttl, .. } = hold.timing();
            self.on_point(renew_at, ttl / RENEW_FRACTION).max(earliest).min(ends_at)
        });
    }

    /// Looks at `hold` at once: a lease that was handed over has little time
    /// left.
    pub(crate) fn keep_now(&self, hold: &Arc<Hold>) {
        self.put(hold, Moment::default);
    }

    /// When it is due is asked in here: of two who put the same hold, the later
    /// one has seen more.
    fn put(&self, hold: &Arc<Hold>, due: impl FnOnce() -> Moment) {
        let mut plan = self.plan();
        let (due, noted) = (due(), plan.calendar.remove(&(hold.due(), hold.id)));
        // Whoever ends the hold takes it out for good.
        if !hold.set_due(due) {
            return;
        }
        let hold = noted.unwrap_or_else(|| {
            plan.kept.insert(hold.id, Arc::clone(hold));
            Arc::clone(hold)
        });
        if due == Moment::NEVER {
            return;
        }
        plan.calendar.insert((due, hold.id), hold);
        if due < plan.asleep_until {
            self.alarm.notify_one();
        }
    }

    /// Whoever has ended a hold takes it out.
    pub(crate) fn forget(&self, hold: &Arc<Hold>) {
        let mut plan = self.plan();
        plan.calendar.remove(&(hold.due(), hold.id));
        plan.kept.remove(&hold.id);
        shrink(&mut plan.kept);
    }

    /// The hold with this ticket, if it is kept.
    pub(crate) fn find(&self, id: LeaseId) -> Option<Arc<Hold>> {
        self.plan().kept.get(&id).cloned()
    }

    /// Everything that is kept now.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.plan().kept.values().cloned().collect()
    }

    pub(crate) fn close(&self) {
        self.plan().closed = true;
        self.alarm.notify_one();
    }

    /// The point before `at`. What a store confirms of one ttl differs by a little
    /// from lease to lease, so points are a power of two apart: all share them.
    fn on_point(&self, at: Moment, interval: Duration) -> Moment {
        let step = u64::try_from((interval / POINTS).as_nanos()).unwrap_or(u64::MAX).max(1);
        let step = 1 << step.ilog2();
        let past = (at.nanos().wrapping_sub(self.phase)) % step;
        if at == Moment::NEVER { at } else { at.before(Duration::from_nanos(past)) }
    }

    /// Resolves when there is something to do earlier than was planned.
    pub(crate) async fn alarmed(&self) {
        self.alarm.notified().await;
    }

    /// When to wake next; `None` once closed.
    ///
    /// A moment that was planned stays, even if the hold it was for has gone: a
    /// lock that is taken and released again and again would otherwise raise
    /// the alarm each time, and one look in vain is cheaper.
    pub(crate) fn sleep_until(&self) -> Option<Moment> {
        let mut plan = self.plan();
        let first = plan.calendar.first_key_value().map_or(Moment::NEVER, |((due, _), _)| *due);
        plan.asleep_until = first.min(plan.asleep_until);
        (!plan.closed).then_some(plan.asleep_until)
    }

    /// Some of what is due by now. It stays where it is until it is kept for later
    /// or forgotten.
    pub(crate) fn due(&self, now: Moment, most: usize) -> Vec<Arc<Hold>> {
        let mut plan = self.plan();
        plan.asleep_until = Moment::NEVER;
        let due = plan.calendar.iter().take_while(|((due, _), _)| *due <= now);
        due.take(most).map(|(_, hold)| Arc::clone(hold)).collect()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::claim::{Grant, Mode, Place, Ticket};
    use crate::clock::Clock;
    use crate::hold::Terms;
    use crate::name::{Name, Namespace};

    fn held() -> Arc<Hold> {
        held_for(Duration::from_secs(30), Duration::from_secs(30))
    }

    /// Asked for, and granted.
    fn held_for(ttl: Duration, granted: Duration) -> Arc<Hold> {
        let hold = asked_for(ttl);
        assert!(hold.granted(&Grant::new(1, granted, Clock::System.now()), Duration::ZERO));
        hold
    }

    /// Asked for, and waiting in line.
    fn waiting() -> Arc<Hold> {
        let (hold, ttl) = (asked_for(Duration::from_secs(30)), Duration::from_secs(30));
        hold.placed(Place::new(ttl, Clock::System.now()), Duration::ZERO);
        hold
    }

    fn asked_for(ttl: Duration) -> Arc<Hold> {
        let no = Duration::ZERO;
        let terms = Terms { ttl, lock_delay: no, renewed: true, max_hold: None, hold_at_least: no };
        let name = Name::new(&Namespace::default(), "n").unwrap();
        Arc::new(Hold::new(Ticket::new(name, Mode::Exclusive), None, terms, Clock::System))
    }

    fn alarmed(schedule: &Schedule) -> bool {
        let alarm = pin!(schedule.alarmed());
        alarm.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_lock_that_is_taken_again_and_again_wakes_the_keeper_once() {
        let schedule = Schedule::new();
        assert_eq!(schedule.sleep_until(), Some(Moment::NEVER));
        let first = held();
        schedule.keep(&first);
        assert!(alarmed(&schedule));
        let planned = schedule.sleep_until();
        schedule.forget(&first);
        assert_eq!(schedule.sleep_until(), planned);
        schedule.keep(&held());
        assert!(!alarmed(&schedule), "it wakes before that one is due");
        assert!(schedule.due(Moment::default(), 1).is_empty());
        schedule.keep_now(&held());
        assert!(alarmed(&schedule), "after a look it plans anew");
    }

    #[test]
    fn a_hold_is_found_by_its_ticket_until_it_is_forgotten() {
        let schedule = Schedule::new();
        let holds: Vec<_> = (0..5000).map(|_| held()).collect();
        holds.iter().for_each(|hold| schedule.keep(hold));
        let found =
            |hold: &Arc<Hold>| schedule.find(hold.id).is_some_and(|it| Arc::ptr_eq(&it, hold));
        assert!(holds.iter().all(found));
        holds.iter().skip(1).for_each(|hold| schedule.forget(hold));
        assert!(found(&holds[0]) && !found(&holds[1]));
        assert_eq!((schedule.all().len(), schedule.plan().calendar.len()), (1, 1));
        assert!(schedule.plan().kept.capacity() < 5000, "room for many was given back");
    }

    /// A waiter whose place is being renewed is due at no moment.
    #[test]
    fn what_is_due_at_no_moment_is_found_too_and_what_has_ended_is_not_kept() {
        let (schedule, waiter) = (Schedule::new(), waiting());
        assert!(waiter.try_turn());
        schedule.keep(&waiter);
        assert_eq!(schedule.sleep_until(), Some(Moment::NEVER));
        assert!(schedule.find(waiter.id).is_some());
        waiter.end_turn();
        schedule.keep(&waiter);
        assert_ne!(schedule.sleep_until(), Some(Moment::NEVER));
        waiter.give_back();
        schedule.forget(&waiter);
        schedule.keep(&waiter);
        assert!(schedule.find(waiter.id).is_none() && schedule.all().is_empty());
    }

    /// A store that counts by sessions confirms what is left of one.
    #[test]
    fn leases_that_are_confirmed_for_about_as_long_are_renewed_together() {
        let schedule = Schedule::new();
        let at = Clock::System.now().after(Duration::from_secs(60));
        let point = |micros: u64| schedule.on_point(at, Duration::from_micros(10_000_000 - micros));
        assert!((0..20_000).all(|micros| point(micros) == point(0)));
        assert!(point(0) <= at && at.since(point(0)) <= Duration::from_millis(625));
    }

    /// What is granted for less at a time is renewed as often as that needs, and
    /// not as soon as it was.
    #[test]
    fn a_lease_that_is_longer_than_its_session_is_not_renewed_all_the_time() {
        let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
        for _ in 0..100 {
            let schedule = Schedule::new();
            let now = Clock::System.now();
            schedule.keep(&held_for(hour, minute));
            let next = schedule.sleep_until().unwrap_or_default();
            assert!(next > now.after(minute / 6), "in {:?}", next.since(now));
        }
    }
}
