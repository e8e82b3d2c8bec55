//! The keeper: renews leases and places in time, and says so when it cannot.
//!
//! One task on home for each client. It sleeps until the next hold is due and
//! renews all that are due in one request.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Mode, RENEW_FRACTION, Refresh, Renewal};
use crate::clock::Moment;
use crate::connection::ConnectionState;
use crate::core::Core;
use crate::engine::{Event, Events, Loss};
use crate::error::{Effect, Result};
use crate::hold::Hold;
use crate::layers::guardrail::no_answer;
use crate::mutant::{self, Mutant};

/// The keeper's life: sleep, look, renew.
pub(crate) async fn run(core: Arc<Core>) {
    while let Some(next) = core.schedule.sleep_until() {
        tokio::select! {
            biased;
            () = core.clock.sleep_until(next) => {}
            () = core.schedule.alarmed() => continue,
        }
        look(&core);
    }
}

fn look(core: &Arc<Core>) {
    let now = core.clock.now();
    let (mut batch, mut asked) = (Vec::new(), Vec::new());
    for hold in core.schedule.due(now) {
        match over(&hold, now) {
            Some(loss) => core.lose(&hold, loss),
            None if !hold.try_turn() => core.schedule.keep(&hold),
            None if hold.mode_before().is_some() => {
                core.schedule.keep(&hold);
                core.home.spawn(settle_and_renew(Arc::clone(core), hold));
            }
            None => {
                asked.push(prepare(core, &hold, now));
                batch.push(hold);
            }
        }
    }
    if !batch.is_empty() {
        core.home.spawn(renew(Arc::clone(core), batch, asked));
    }
}

/// All that one hold needs before its renewal leaves, while it is at hand: a
/// hundred thousand of them fit no cache, and one round is cheaper than three.
fn prepare(core: &Core, hold: &Arc<Hold>, now: Moment) -> Refresh {
    if hold.is_held() {
        core.observer.renewing(hold, now);
    }
    // While the request is under way the deadline still counts.
    core.schedule.keep(hold);
    hold.refresh()
}

fn over(hold: &Hold, now: Moment) -> Option<Loss> {
    if now < hold.ends_at() {
        return None;
    }
    Some(if now >= hold.must_end_at() { Loss::MaxHold } else { Loss::Expired })
}

async fn renew(core: Arc<Core>, batch: Vec<Arc<Hold>>, asked: Vec<Refresh>) {
    let mut answers = core.engine.renew(asked).await.into_iter();
    for hold in batch {
        let answer = answers.next().unwrap_or_else(no_answer);
        let rest = settle(&core, &hold, answer);
        hold.end_turn();
        core.schedule.keep_from(&hold, rest);
    }
}

/// Settles a conversion whose outcome is unknown, and then renews: an engine may
/// look for a lease by its mode.
async fn settle_and_renew(core: Arc<Core>, hold: Arc<Hold>) {
    let answer = convert(&core, &hold, hold.mode()).await.unwrap_or_else(Renewal::Unknown);
    if let Renewal::Held { .. } = answer {
        let asked = vec![hold.refresh()];
        return renew(core, vec![hold], asked).await;
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
    while let Some(event) = events.next().await {
        if let Some(state) = ConnectionState::of(&event) {
            core.note(state);
        }
        match event {
            Event::TicketLost(id, loss) => {
                let kept = core.schedule.all();
                let found = kept.iter().find(|hold| hold.id == id);
                // Its grant may still be on its way.
                if found.is_none_or(|hold| !hold.is_held()) {
                    core.losses.note(id, core.clock.now());
                }
                found.iter().for_each(|hold| core.lose(hold, loss.clone()));
            }
            Event::Suspended => core.schedule.all().iter().for_each(|hold| core.jeopardize(hold)),
            Event::Disconnected => {
                core.losses.note_all(core.clock.now());
                core.schedule.all().iter().for_each(|hold| core.lose(hold, Loss::Disconnected));
            }
            // Much may have happened in the gap: ask at once.
            Event::Reconnected => {
                core.schedule.all().iter().for_each(|hold| core.schedule.keep_now(hold));
            }
            Event::RevocationAsked(id) => {
                let kept = core.schedule.all();
                kept.iter().filter(|hold| hold.id == id).for_each(|hold| hold.want());
            }
            Event::Kept(id, place) => {
                // Its grant may still be on its way.
                core.losses.note_cut(id, place, core.clock.now());
                for hold in core.schedule.all().iter().filter(|hold| hold.id == id) {
                    core.shorten(hold, place);
                    if hold.is_held() {
                        core.losses.forget_cut(id);
                    }
                }
            }
            Event::Connected => {}
        }
    }
}
