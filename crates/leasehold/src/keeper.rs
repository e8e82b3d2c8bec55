//! The keeper: renews leases and places in time, and says so when it cannot.
//!
//! One task on home for each client. It sleeps until the next hold is due and
//! renews all that are due in one request.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Refresh, Renewal};
use crate::clock::Moment;
use crate::connection::ConnectionState;
use crate::core::Core;
use crate::engine::{Event, Events, Loss};
use crate::error::{Error, ErrorKind};
use crate::hold::Hold;

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
    for hold in core.schedule.take_due(now) {
        match over(&hold, now) {
            Some(loss) => core.lose(&hold, loss),
            None if hold.try_turn() => {
                asked.push(prepare(core, &hold, now));
                batch.push(hold);
            }
            None => core.schedule.keep(&hold),
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
    hold.refresh(hold.ttl())
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

pub(crate) fn no_answer() -> Renewal {
    let text = "the engine left out the answer to a renewal";
    Renewal::Unknown(Error::new(ErrorKind::Unexpected, text))
}

/// Takes in one answer; says how long to let the hold rest.
pub(crate) fn settle(core: &Arc<Core>, hold: &Arc<Hold>, answer: Renewal) -> Moment {
    let drift = core.drift(hold.ttl());
    match answer {
        Renewal::Held { ttl, sent_at } if hold.is_held() => {
            hold.renewed(sent_at, ttl, drift);
            core.observer.renewed(hold);
        }
        // A holder that waits in line has lost what it held, and asks no further.
        Renewal::Queued(place) if hold.is_undone_by(place) => core.lose(hold, Loss::Gone),
        Renewal::Queued(place) => hold.placed(place, drift),
        Renewal::Gone if hold.is_held() => core.lose(hold, Loss::Gone),
        // A waiter whose lease or place has changed asks for itself.
        Renewal::Held { .. } | Renewal::Gone => {
            hold.nudge();
            return core.clock.now().after(hold.ttl() / 3);
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

/// Takes in what the engine tells without being asked.
pub(crate) async fn listen(core: Arc<Core>, mut events: Events) {
    while let Some(event) = events.next().await {
        if let Some(state) = ConnectionState::of(&event) {
            core.note(state);
        }
        match event {
            Event::TicketLost(id, loss) => {
                let kept = core.schedule.all();
                kept.iter().filter(|hold| hold.id == id).for_each(|hold| {
                    core.lose(hold, loss.clone());
                });
            }
            Event::Suspended => core.schedule.all().iter().for_each(|hold| core.jeopardize(hold)),
            Event::Disconnected => {
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
            Event::Connected => {}
        }
    }
}
