//! The profile of an engine, in plain words.

use leasehold::Profile;
use leasehold::engine::profile::{
    Fencing, Grants, Lists, Liveness, Order, Reach, Survives, Timekeeper, WakeUp,
};
use serde::Serialize;

use crate::text::span;

/// One promise of an engine, and what it means for its users.
#[derive(Serialize)]
pub(crate) struct Promise {
    pub(crate) promise: &'static str,
    pub(crate) value: String,
    pub(crate) meaning: String,
}

impl Promise {
    fn new(promise: &'static str, (value, meaning): (&str, &str)) -> Self {
        Self { promise, value: value.into(), meaning: meaning.into() }
    }

    fn yes_or_no(promise: &'static str, kept: bool, [yes, no]: [&str; 2]) -> Self {
        Self::new(promise, if kept { ("yes", yes) } else { ("no", no) })
    }
}

/// What a newer library may promise and we have no words for.
const NEW: (&str, &str) =
    ("?", "this command is older than the engine; see its page in docs/engines");

pub(crate) fn promises(profile: &Profile) -> Vec<Promise> {
    let mut all = vec![
        Promise::new("grants", grants(profile.grants)),
        Promise::new("fencing", fencing(profile.fencing)),
        Promise::new("order", order(profile.order)),
        Promise::new("liveness", liveness(profile.liveness)),
        Promise::new("clock", clock(profile.clock)),
        Promise::new("wake", wake(profile.wake)),
        Promise::new("reach", reach(profile.reach)),
        Promise::new("survives", survives(profile.survives)),
        Promise::new("listing", listing(profile.listing)),
    ];
    all.extend(abilities(profile));
    all.extend([cost(profile), limits(profile)]);
    all
}

fn grants(grants: Grants) -> (&'static str, &'static str) {
    match grants {
        Grants::Exclusive => ("exclusive", "mutexes only"),
        Grants::Shared => ("shared", "mutexes and read-write locks"),
        Grants::Counted => ("counted", "mutexes, read-write locks and semaphores"),
        _ => NEW,
    }
}

fn fencing(fencing: Fencing) -> (&'static str, &'static str) {
    match fencing {
        Fencing::None => ("none", "fences do not tell who came later; do not rely on them"),
        Fencing::Clocked => ("clocked", "fences grow, unless a new server's clock is far behind"),
        Fencing::Strict => ("strict", "a later holder always has a larger fence"),
        _ => NEW,
    }
}

fn order(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Any => ("any", "whoever asks at the right moment gets it"),
        Order::Fifo => ("fifo", "first come, first served"),
        _ => NEW,
    }
}

fn liveness(liveness: Liveness) -> (&'static str, &'static str) {
    match liveness {
        Liveness::Ttl => ("ttl", "a dead holder's lock is free after its ttl at the latest"),
        Liveness::Session => ("session", "all locks of a client end with its session"),
        Liveness::Connection => ("connection", "a lock ends with the connection of its holder"),
        _ => NEW,
    }
}

fn clock(clock: Timekeeper) -> (&'static str, &'static str) {
    match clock {
        Timekeeper::Host => ("host", "everyone reads the same clock: no drift"),
        Timekeeper::Server => {
            ("server", "the server's clock ends leases; a margin allows for drift")
        }
        Timekeeper::Quorum => ("quorum", "the clocks of a majority of servers end leases"),
        _ => NEW,
    }
}

fn wake(wake: WakeUp) -> (&'static str, &'static str) {
    match wake {
        WakeUp::Poll => ("poll", "a waiter asks again and again"),
        WakeUp::Push => ("push", "a waiter is told when its turn has come"),
        _ => NEW,
    }
}

fn reach(reach: Reach) -> (&'static str, &'static str) {
    match reach {
        Reach::Process => ("process", "only tasks and threads of one process share locks"),
        Reach::Host => ("host", "processes of this host share locks; other hosts do not"),
        Reach::Network => ("network", "all hosts that reach the server share locks"),
        _ => NEW,
    }
}

fn survives(survives: Survives) -> (&'static str, &'static str) {
    match survives {
        Survives::Nothing => ("nothing", "all locks end with the process that keeps them"),
        Survives::Restart => ("restart", "leases and fences outlive a restart of the engine"),
        Survives::Failover => ("failover", "leases and fences outlive the loss of a machine"),
        _ => NEW,
    }
}

fn listing(listing: Lists) -> (&'static str, &'static str) {
    match listing {
        Lists::ByName => ("by name", "`show` works; `ls` and `watch` cannot list all names"),
        Lists::Indexed => ("indexed", "`ls` and `watch` show all names"),
        _ => NEW,
    }
}

fn abilities(profile: &Profile) -> [Promise; 4] {
    [
        Promise::yes_or_no(
            "predecessor",
            profile.predecessor,
            [
                "a holder learns how the one before it ended",
                "a holder does not learn how the one before it ended",
            ],
        ),
        Promise::yes_or_no(
            "lock delay",
            profile.lock_delay,
            [
                "an expired name can be kept closed for a while",
                "an expired name is open at once; --lock-delay is refused",
            ],
        ),
        Promise::yes_or_no(
            "keep closed",
            profile.keep_closed,
            [
                "a released name can be kept closed for a while",
                "a released name is open at once; --hold-at-least is refused",
            ],
        ),
        Promise::yes_or_no(
            "convert",
            profile.convert,
            [
                "a writer can become a reader without letting go",
                "a writer must let go to become a reader",
            ],
        ),
    ]
}

fn cost(profile: &Profile) -> Promise {
    let cost = &profile.cost;
    let value = format!("{} + {}", cost.acquire, cost.release);
    let meaning = format!(
        "round trips to lock and to release; connections: {} per holder, {} per waiter",
        cost.connections_per_holder, cost.connections_per_waiter
    );
    Promise { promise: "cost", value, meaning }
}

fn limits(profile: &Profile) -> Promise {
    let limits = &profile.limits;
    let holders = limits.holders_max.map(|most| format!(", {most} leases per client"));
    let meaning = format!(
        "of a ttl; also {} permits, {} bytes of a name{}",
        limits.permits_max,
        limits.name_max,
        holders.unwrap_or_default()
    );
    let value = format!("{} to {}", span(limits.ttl_min), span(limits.ttl_max));
    Promise { promise: "limits", value, meaning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_has_a_meaning() {
        let all = promises(&Profile::new("test", "here"));
        assert_eq!(all.len(), 15);
        assert!(all.iter().all(|promise| promise.meaning.len() > 10 && promise.value != "?"));
    }
}
