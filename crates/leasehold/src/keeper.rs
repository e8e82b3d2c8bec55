//! The keeper: renews leases and places in time, and says so when it cannot.
//!
//! One task on home for each client. It sleeps until the next hold is due and
//! renews all that are due in one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{LeaseId, Renewal};
use crate::clock::Moment;
use crate::core::Core;
use crate::engine::{Event, Events, Loss};
use crate::hold::Hold;

/// Renewals of one ttl fall on this many points of a renewal interval, so that
/// many holds share a request.
const POINTS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Keeper {
    schedule: Mutex<Schedule>,
    alarm: Notify,
    /// Shifts the points, so that clients do not all renew at once.
    phase: u64,
}

#[derive(Debug, Default)]
struct Schedule {
    holds: BTreeMap<(Moment, LeaseId), Arc<Hold>>,
    asleep_until: Moment,
    closed: bool,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self { schedule: Mutex::default(), alarm: Notify::new(), phase: fastrand::u64(..1 << 40) }
    }

    /// Looks after `hold` from now on, or looks again when it should next.
    pub(crate) fn keep(&self, hold: &Arc<Hold>) {
        self.keep_from(hold, Moment::default());
    }

    /// Like [`Keeper::keep`], but lets a failed renewal rest until `earliest`.
    fn keep_from(&self, hold: &Arc<Hold>, earliest: Moment) {
        let renewal = if hold.is_busy() { Moment::NEVER } else { hold.renew_at() };
        let due = self.on_point(renewal, hold.terms.ttl / 3).max(earliest).min(hold.ends_at());
        self.put(hold, due);
    }

    /// Looks at `hold` at once: a lease that was handed over has little time
    /// left.
    pub(crate) fn keep_now(&self, hold: &Arc<Hold>) {
        self.put(hold, Moment::default());
    }

    fn put(&self, hold: &Arc<Hold>, due: Moment) {
        let mut schedule = self.schedule();
        schedule.remove(hold);
        // Whoever ended the hold has taken it out for good.
        if hold.has_ended() || due == Moment::NEVER {
            return;
        }
        hold.set_due(due);
        schedule.holds.insert((due, hold.ticket.id), Arc::clone(hold));
        if due < schedule.asleep_until {
            self.alarm.notify_one();
        }
    }

    pub(crate) fn forget(&self, hold: &Arc<Hold>) {
        self.schedule().remove(hold);
    }

    /// Everything that is kept now.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.schedule().holds.values().cloned().collect()
    }

    pub(crate) fn close(&self) {
        self.schedule().closed = true;
        self.alarm.notify_one();
    }

    fn on_point(&self, at: Moment, interval: Duration) -> Moment {
        let step = u64::try_from((interval / POINTS).as_nanos()).unwrap_or(u64::MAX).max(1);
        let past = (at.nanos().wrapping_sub(self.phase)) % step;
        if at == Moment::NEVER { at } else { at.before(Duration::from_nanos(past)) }
    }

    /// When to wake next; `None` once closed.
    fn sleep_until(&self) -> Option<Moment> {
        let mut schedule = self.schedule();
        schedule.asleep_until =
            schedule.holds.first_key_value().map_or(Moment::NEVER, |((due, _), _)| *due);
        (!schedule.closed).then_some(schedule.asleep_until)
    }

    fn take_due(&self, now: Moment) -> Vec<Arc<Hold>> {
        let mut schedule = self.schedule();
        let mut due = Vec::new();
        while let Some(entry) = schedule.holds.first_entry()
            && entry.key().0 <= now
        {
            due.push(entry.remove());
        }
        due
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Schedule {
    fn remove(&mut self, hold: &Hold) {
        self.holds.remove(&(hold.due(), hold.ticket.id));
    }
}

/// The keeper's life: sleep, look, renew.
pub(crate) async fn run(core: Arc<Core>) {
    while let Some(next) = core.keeper.sleep_until() {
        tokio::select! {
            () = core.clock.sleep_until(next) => {}
            () = core.keeper.alarm.notified() => continue,
        }
        look(&core);
    }
}

fn look(core: &Arc<Core>) {
    let now = core.clock.now();
    let mut batch = Vec::new();
    for hold in core.keeper.take_due(now) {
        match over(&hold, now) {
            Some(loss) => core.lose(&hold, loss),
            None if hold.try_turn() => batch.push(hold),
            None => core.keeper.keep(&hold),
        }
    }
    if !batch.is_empty() {
        // While the request is under way the deadlines still count.
        batch.iter().for_each(|hold| core.keeper.keep(hold));
        core.home.spawn(renew(Arc::clone(core), batch));
    }
}

fn over(hold: &Hold, now: Moment) -> Option<Loss> {
    if now < hold.ends_at() {
        return None;
    }
    Some(if now >= hold.must_end_at() { Loss::MaxHold } else { Loss::Expired })
}

async fn renew(core: Arc<Core>, batch: Vec<Arc<Hold>>) {
    let asked = batch.iter().map(|hold| hold.refresh(hold.terms.ttl)).collect();
    let mut answers = core.engine.renew(asked).await.into_iter();
    for hold in batch {
        let answer = answers.next().unwrap_or(Renewal::Gone);
        let rest = settle(&core, &hold, answer);
        hold.end_turn();
        core.keeper.keep_from(&hold, rest);
    }
}

/// Takes in one answer; says how long to let the hold rest.
pub(crate) fn settle(core: &Arc<Core>, hold: &Arc<Hold>, answer: Renewal) -> Moment {
    let drift = core.drift(hold.terms.ttl);
    match answer {
        Renewal::Held { ttl, sent_at } if hold.is_held() => hold.renewed(sent_at, ttl, drift),
        Renewal::Queued(place) => hold.placed(place, drift),
        Renewal::Granted(grant) if hold.is_held() => hold.renewed(grant.sent_at, grant.ttl, drift),
        Renewal::Gone if hold.is_held() => core.lose(hold, Loss::Gone),
        // A waiter whose lease or place has changed asks for itself.
        Renewal::Held { .. } | Renewal::Granted(_) | Renewal::Gone => {
            hold.nudge();
            return core.clock.now().after(hold.terms.ttl / 3);
        }
        Renewal::Unknown(_) => {
            hold.jeopardize();
            return core.clock.now().after((hold.terms.ttl / 12).max(Duration::from_millis(10)));
        }
    }
    Moment::default()
}

/// Takes in what the engine tells without being asked.
pub(crate) async fn listen(core: Arc<Core>, mut events: Events) {
    while let Some(event) = events.next().await {
        match event {
            Event::TicketLost(id, loss) => {
                let kept = core.keeper.all();
                kept.iter().filter(|hold| hold.ticket.id == id).for_each(|hold| {
                    core.lose(hold, loss.clone());
                });
            }
            Event::Suspended => core.keeper.all().iter().for_each(|hold| hold.jeopardize()),
            Event::Disconnected => {
                core.keeper.all().iter().for_each(|hold| core.lose(hold, Loss::Disconnected));
            }
            Event::Connected | Event::Reconnected | Event::RevocationAsked(_) => {}
        }
    }
}
