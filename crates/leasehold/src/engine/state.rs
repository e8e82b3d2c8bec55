//! The pure core: what one name goes through.
//!
//! [`step`] takes the state of a name, a verb and the time, and answers. It
//! reads no clock, sends nothing and knows no engine, so that it can be run
//! under a mutex, inside a transaction or against a script, and every engine
//! that uses it behaves the same.
//!
//! The rules, in the order they are applied:
//!
//! 1. What has expired goes first: leases (a lock delay keeps the name closed
//!    for a while longer), then places in the queue.
//! 2. The queue is served from the front as long as its head fits beside the
//!    holders. Nobody overtakes it: neither writers nor large takers starve.
//! 3. A lease handed over from the queue ends when its place would have ended,
//!    until its new holder renews it; so a waiter that died blocks others for
//!    one ttl, not two.
//! 4. Renewing never shortens: a client may have been told the longer time.

mod hand;
mod queue;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod rows;
mod seat;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", test))]
mod sessions;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sole;
#[cfg(test)]
mod tests;
mod whole;
mod words;

use self::hand::Hand;
use crate::clock::Moment;

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use self::rows::SeatChanges;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) use self::rows::SeatRow;
pub(crate) use self::whole::State;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) use self::words::SessionId;
pub(crate) use self::words::{Answer, FollowUp, Verb};

/// An answer, and what others have to be told.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) answer: Answer,
    pub(crate) follow_ups: Vec<FollowUp>,
}

/// Takes one step. `fence` is the last fence given out in the namespace.
pub(crate) fn step(state: &mut State, verb: Verb, now: Moment, fence: &mut u64) -> Step {
    let follow_ups = state.expire(now);
    let mut hand = Hand { state, now, fence, follow_ups };
    // Whoever leaves the queue is not served first: it would stand between a
    // holder that died and the next one, who must hear of it.
    if !matches!(verb, Verb::Release { .. }) {
        hand.serve_queue();
    }
    let answer = match verb {
        Verb::Acquire { claim, session } => hand.acquire(*claim, session),
        Verb::Renew { id, ttl } => hand.renew(id, ttl),
        Verb::Release { id, ending } => hand.release(id, &ending),
        Verb::Convert { id, to } => hand.convert(id, to),
        Verb::Evict { target, remark } => hand.evict(target, &remark),
        Verb::Bind { id } => hand.bind(id),
        Verb::Tick => Answer::Ticked,
    };
    hand.serve_queue();
    Step { answer, follow_ups: hand.follow_ups }
}
