//! The keeper: renews leases and places in time, and says so when it cannot.
//!
//! One task on home for each client. It sleeps until the next hold is due, and
//! renews what is due at once in as few requests as keep nobody else waiting.

mod renewal_queue;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use self::renewal_queue::{PORTION, RenewalQueue};
use crate::claim::{LeaseId, Mode, Place, RENEW_FRACTION, Refresh, Renewal};
use crate::clock::Moment;
use crate::connection::ConnectionState;
use crate::core::Core;
use crate::engine::{Event, Events, Loss};
use crate::error::{Effect, Result};
use crate::hold::Hold;
use crate::layers::guardrail::no_answer;
use crate::mutant::{self, Mutant};

/// How many requests may be under way before the next one waits for an answer,
/// unless it must not wait.
const UNDER_WAY: usize = 4;

/// The right to have a request under way.
type Slot = Option<OwnedSemaphorePermit>;

/// The keeper's life: sleep, look, renew. Home is one thread: after each portion
/// everyone else has a turn.
pub(crate) async fn run(core: Arc<Core>) {
    let (mut queue, slots) = (RenewalQueue::default(), Arc::new(Semaphore::new(UNDER_WAY)));
    while let Some(next) = core.schedule.sleep_until() {
        tokio::select! {
            biased;
            () = core.clock.sleep_until(next) => look(&core, &mut queue),
            slot = may_leave(&core, queue.latest(), &slots) => leave(&core, &mut queue, slot),
            () = core.schedule.alarmed() => continue,
        }
        yield_now().await;
    }
}

/// Resolves when the next portion may leave, or must.
async fn may_leave(core: &Core, latest: Option<Moment>, slots: &Arc<Semaphore>) -> Slot {
    let Some(latest) = latest else { return pending().await };
    tokio::select! {
        biased;
        slot = Arc::clone(slots).acquire_owned() => slot.ok(),
        () = core.clock.sleep_until(latest) => None,
    }
}

/// Queues the renewals that are due, and tells what is over. The schedule looks
/// after the deadlines of those that wait.
fn look(core: &Arc<Core>, queue: &mut RenewalQueue) {
    let now = core.clock.now();
    for hold in core.schedule.due(now, PORTION) {
        if let Some(loss) = over(&hold, now) {
            core.lose(&hold, loss);
            continue;
        }
        let due = hold.queue_renewal();
        core.schedule.keep(&hold);
        if let Some(due) = due {
            queue.push(hold, due, now);
        }
    }
}

/// Sends the most urgent renewals.
fn leave(core: &Arc<Core>, queue: &mut RenewalQueue, slot: Slot) {
    let now = core.clock.now();
    let (mut batch, mut asked) = (Vec::new(), Vec::new());
    for hold in queue.portion() {
        match hold.begin_renewal() {
            None => core.schedule.keep(&hold),
            Some(_) if hold.mode_before().is_some() => {
                core.home.spawn(settle_and_renew(Arc::clone(core), hold));
            }
            Some(due) => {
                if hold.is_held() {
                    let planned = due != Moment::default();
                    core.observer.renewing(&hold, planned.then(|| now.since(due)));
                }
                asked.push(hold.refresh());
                batch.push(hold);
            }
        }
    }
    if !batch.is_empty() {
        core.home.spawn(renew(Arc::clone(core), batch, asked, slot));
    }
}

fn over(hold: &Hold, now: Moment) -> Option<Loss> {
    if now < hold.ends_at() {
        return None;
    }
    Some(if now >= hold.must_end_at() { Loss::MaxHold } else { Loss::Expired })
}

async fn renew(core: Arc<Core>, batch: Vec<Arc<Hold>>, asked: Vec<Refresh>, slot: Slot) {
    let mut answers = core.engine.renew(asked).await.into_iter();
    for hold in batch {
        let answer = answers.next().unwrap_or_else(no_answer);
        let rest = settle(&core, &hold, answer);
        hold.end_turn();
        core.schedule.keep_from(&hold, rest);
    }
    drop(slot);
}

/// Settles a conversion whose outcome is unknown, and then renews: an engine may
/// look for a lease by its mode.
async fn settle_and_renew(core: Arc<Core>, hold: Arc<Hold>) {
    let answer = convert(&core, &hold, hold.mode()).await.unwrap_or_else(Renewal::Unknown);
    if let Renewal::Held { .. } = answer {
        let asked = vec![hold.refresh()];
        return renew(core, vec![hold], asked, None).await;
    }
    let rest = settle(&core, &hold, answer);
    hold.end_turn();
    core.schedule.keep_from(&hold, rest);
}

/// Asks for a conversion, and takes in as what it is held from now on. One that
/// was asked for before and is not settled may have taken effect, whatever
/// becomes of this one.
pub(crate) async fn convert(core: &Core, hold: &Hold, to: Mode) -> Result<Renewal> {
    let unsettled = hold.mode_before().is_some();
    hold.mode_before().unwrap_or_else(|| hold.mode()).check_conversion(to)?;
    let from = hold.begin_conversion(to);
    let answer = core.engine.convert(hold.ticket().in_mode(from), to).await;
    match &answer {
        Ok(Renewal::Held { .. }) if hold.is_held() => {
            hold.end_conversion(to);
            core.observer.converted(hold, from);
        }
        Err(error) if error.effect() == Effect::NotApplied && !unsettled => {
            hold.end_conversion(from);
        }
        _ => {}
    }
    answer
}

/// Takes in one answer; says how long to let the hold rest.
pub(crate) fn settle(core: &Arc<Core>, hold: &Arc<Hold>, answer: Renewal) -> Moment {
    match answer {
        Renewal::Held { ttl, sent_at } if hold.is_held() => {
            hold.renewed(sent_at, ttl, drift(core, hold, ttl));
            core.observer.renewed(hold);
        }
        // A holder that waits in line has lost what it held, and asks no further.
        Renewal::Queued(place) if hold.is_undone_by(place) => core.lose(hold, Loss::Gone),
        Renewal::Queued(place) => hold.placed(place, drift(core, hold, place.ttl)),
        Renewal::Gone if hold.is_held() => core.lose(hold, Loss::Gone),
        // A waiter whose lease or place has changed asks for itself.
        Renewal::Held { .. } | Renewal::Gone => {
            hold.nudge();
            return core.clock.now().after(hold.ttl() / RENEW_FRACTION);
        }
        Renewal::Unknown(error) => {
            let rest = (hold.ttl() / 12).max(Duration::from_millis(10));
            let again = core.clock.now().after(rest);
            if hold.is_held() {
                core.observer.renewal_failed(hold, &error);
            }
            core.jeopardize(hold);
            return again;
        }
    }
    Moment::default()
}

/// What to take off a ttl that was confirmed: a part of that one, which may be
/// longer than the one the lease was asked with.
fn drift(core: &Core, hold: &Hold, confirmed: Duration) -> Duration {
    core.drift(if mutant::lives(Mutant::DriftOfAskedTtl) { hold.ttl() } else { confirmed })
}

/// Takes in what the engine tells without being asked.
pub(crate) async fn listen(core: Arc<Core>, mut events: Events) {
    while let Some((told, event)) = next_event(&core, &mut events).await {
        if let Some(state) = ConnectionState::of(&event) {
            core.note(state, &event);
        }
        match event {
            Event::TicketLost(id, loss) => ticket_lost(&core, id, loss, told),
            Event::RevocationAsked(id) => {
                core.schedule.find(id).iter().for_each(|hold| hold.want());
            }
            Event::Kept(id, place) => kept(&core, id, place, told),
            Event::Suspended => for_all(&core, |hold| core.jeopardize(hold)).await,
            Event::Disconnected => {
                core.losses.note_all(told);
                let lose = |hold: &_| core.lose_as_told(hold, Loss::Disconnected, told);
                for_all(&core, lose).await;
            }
            // Much may have happened in the gap: ask at once.
            Event::Reconnected => for_all(&core, |hold| core.schedule.keep_now(hold)).await,
            Event::Connected => {}
        }
    }
    core.no_more_news();
}

/// Forgets, while there is no news, losses that nobody can have missed.
async fn next_event(core: &Core, events: &mut Events) -> Option<(Moment, Event)> {
    loop {
        tokio::select! {
            biased;
            event = events.next_told() => return event,
            () = core.clock.sleep_until(core.losses.next_forgotten()) => {
                core.losses.forget_some(core.clock.now());
            }
        }
        yield_now().await;
    }
}

fn ticket_lost(core: &Arc<Core>, id: LeaseId, loss: Loss, told: Moment) {
    let mut found = core.schedule.find(id);
    if found.as_ref().is_none_or(|hold| !hold.is_held()) {
        // Its grant may still be on its way, or arrive in this very moment.
        core.losses.note(id, told);
        found = core.schedule.find(id);
    }
    if let Some(hold) = found {
        core.lose_as_told(&hold, loss, told);
    }
}

fn kept(core: &Core, id: LeaseId, place: Place, told: Moment) {
    // Its grant may still be on its way.
    core.losses.note_cut(id, place, told);
    let Some(hold) = core.schedule.find(id) else { return };
    core.shorten(&hold, place);
    if hold.is_held() {
        core.losses.forget_cut(id);
    }
}

/// Does it to every hold, some at a time: home is one thread.
async fn for_all(core: &Core, work: impl Fn(&Arc<Hold>) + Send) {
    for some in core.schedule.all().chunks(PORTION) {
        some.iter().for_each(&work);
        yield_now().await;
    }
}
