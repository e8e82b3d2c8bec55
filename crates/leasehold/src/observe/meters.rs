//! Metrics: a set of handles for each kind of lock, made once per client,
//! because looking one up costs more than an uncontended lock may.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};

use super::{Asked, WHY, Witness, why};
use crate::claim::Mode;
use crate::clock::Moment;
use crate::engine::Loss;
use crate::error::Error;
use crate::hold::Hold;
use crate::name::Name;

const WAIT: &str = "leasehold_wait_seconds";
const HOLD: &str = "leasehold_hold_seconds";
const RATIO: &str = "leasehold_hold_ttl_ratio";
const LAG: &str = "leasehold_renew_lag_seconds";
const GRANTS: &str = "leasehold_grants_total";
const TIMEOUTS: &str = "leasehold_timeouts_total";
const LOSSES: &str = "leasehold_losses_total";
const FAILED: &str = "leasehold_renewals_failed_total";
const HELD: &str = "leasehold_held";
const LEFT: &str = "leasehold_left_to_expire_total";
#[cfg(feature = "ids")]
const BACK: &str = "leasehold_ids_went_back_total";
#[cfg(feature = "ids")]
const NOT_FILLED: &str = "leasehold_ids_not_filled_total";
#[cfg(feature = "ids")]
const DAYS: &str = "leasehold_ids_days_left";

/// The label `mode`: a kind, without how many permits.
const KINDS: [&str; 4] = ["exclusive", "read", "write", "permits"];

#[derive(Debug)]
pub(super) struct Meters {
    modes: [Meter; 4],
    /// Whoever ends looks at no lease of its own any more, nor at its mode.
    left: Counter,
}

/// The handles of one kind of lock.
#[derive(Debug)]
struct Meter {
    wait: Histogram,
    hold: Histogram,
    ratio: Histogram,
    lag: Histogram,
    grants: Counter,
    timeouts: Counter,
    failed: Counter,
    /// One for each reason, in the order of [`WHY`].
    losses: [Counter; 5],
    held: Gauge,
}

impl Meters {
    pub(super) fn new(scheme: &'static str) -> Self {
        describe();
        let modes = KINDS.map(|kind| Meter::new(scheme, kind));
        Self { modes, left: counter!(LEFT, "engine" => scheme) }
    }

    const fn of(&self, mode: Mode) -> &Meter {
        let [exclusive, read, write, permits] = &self.modes;
        match mode {
            Mode::Exclusive => exclusive,
            Mode::Read => read,
            Mode::Write => write,
            Mode::Permits { .. } => permits,
        }
    }
}

/// Once per client, not per process: the first client may be older than the
/// recorder.
fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_histogram!(WAIT, Unit::Seconds, "Time from asking to the grant");
    describe_histogram!(HOLD, Unit::Seconds, "Time from the grant to release or loss");
    describe_histogram!(RATIO, Unit::Count, "Time held, in ttls");
    describe_histogram!(LAG, Unit::Seconds, "How late a renewal left, behind its plan");
    describe_counter!(GRANTS, Unit::Count, "Leases granted");
    describe_counter!(TIMEOUTS, Unit::Count, "Waits that ran out of time");
    describe_counter!(LOSSES, Unit::Count, "Leases that ended before their guards, by reason");
    describe_counter!(FAILED, Unit::Count, "Renewals of held leases without an answer");
    describe_gauge!(HELD, Unit::Count, "Leases held now");
    describe_counter!(LEFT, Unit::Count, "Leases that a client could not give back as it ended");
}

impl Meter {
    fn new(engine: &'static str, mode: &'static str) -> Self {
        Self {
            wait: histogram!(WAIT, "engine" => engine, "mode" => mode),
            hold: histogram!(HOLD, "engine" => engine, "mode" => mode),
            ratio: histogram!(RATIO, "engine" => engine, "mode" => mode),
            lag: histogram!(LAG, "engine" => engine, "mode" => mode),
            grants: counter!(GRANTS, "engine" => engine, "mode" => mode),
            timeouts: counter!(TIMEOUTS, "engine" => engine, "mode" => mode),
            failed: counter!(FAILED, "engine" => engine, "mode" => mode),
            losses: WHY
                .map(|why| counter!(LOSSES, "engine" => engine, "mode" => mode, "why" => why)),
            held: gauge!(HELD, "engine" => engine, "mode" => mode),
        }
    }

    fn ended(&self, hold: &Hold) {
        let held = hold.held_for().as_secs_f64();
        self.hold.record(held);
        self.ratio.record(held / hold.ttl().as_secs_f64());
        self.held.decrement(1);
    }
}

impl Witness for Meters {
    fn granted(&self, asked: &Asked, hold: &Hold) {
        let meter = self.of(hold.mode());
        meter.wait.record(hold.since().since(asked.since).as_secs_f64());
        meter.grants.increment(1);
        meter.held.increment(1);
    }

    fn timed_out(&self, _: &Asked, _: &Name, mode: Mode, _: Moment) {
        self.of(mode).timeouts.increment(1);
    }

    fn released(&self, hold: &Hold) {
        self.of(hold.mode()).ended(hold);
    }

    fn renewing(&self, hold: &Hold, lag: Option<Duration>) {
        if let Some(lag) = lag {
            self.of(hold.mode()).lag.record(lag.as_secs_f64());
        }
    }

    fn renewal_failed(&self, hold: &Hold, _: &Error) {
        self.of(hold.mode()).failed.increment(1);
    }

    fn lost(&self, hold: &Hold, loss: &Loss) {
        let meter = self.of(hold.mode());
        meter.losses[why(loss)].increment(1);
        meter.ended(hold);
    }

    fn converted(&self, hold: &Hold, from: Mode) {
        self.of(from).held.decrement(1);
        self.of(hold.mode()).held.increment(1);
    }

    fn left_behind(&self, leases: usize, _: Duration) {
        self.left.increment(leases as u64);
    }

    // These are rare enough to be looked up each time.
    #[cfg(feature = "ids")]
    fn ids_went_back(&self, _: &Name, _: u64, _: u64) {
        counter!(BACK).increment(1);
    }

    #[cfg(feature = "ids")]
    fn ids_not_filled(&self, _: &Name, _: &Error) {
        counter!(NOT_FILLED).increment(1);
    }

    #[cfg(feature = "ids")]
    fn ids_end_soon(&self, _: &Name, days: u64) {
        gauge!(DAYS).set(days as f64);
    }
}
