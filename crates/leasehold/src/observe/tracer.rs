//! Spans and events.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::field::Empty;

use super::{Asked, WHY, Witness, why};
use crate::claim::Mode;
use crate::clock::Moment;
use crate::connection::ConnectionState;
use crate::engine::Loss;
use crate::error::Error;
use crate::hold::Hold;
use crate::name::Name;

/// What to filter by.
const TARGET: &str = "leasehold";

#[derive(Debug)]
pub(super) struct Tracer {
    scheme: &'static str,
}

/// An event about a lease; nothing is evaluated unless somebody listens.
macro_rules! tell {
    ($level:ident, $of:expr, $hold:expr, $text:literal $(, $key:ident = $value:expr)*) => {
        tracing::$level!(
            target: TARGET,
            engine = $of.scheme,
            name = %$hold.name,
            mode = %$hold.mode(),
            fence = $hold.fence(),
            $($key = $value,)*
            $text
        )
    };
}

impl Tracer {
    pub(super) const fn new(scheme: &'static str) -> Self {
        Self { scheme }
    }

    pub(super) fn span(&self, name: &Name, mode: Mode) -> tracing::Span {
        tracing::debug_span!(
            target: TARGET,
            "acquire",
            engine = self.scheme,
            name = %name,
            mode = %mode,
            fence = Empty,
            waited = Empty,
            contended = Empty,
        )
    }
}

impl Asked {
    fn waited(&self, hold: &Hold) -> f64 {
        hold.since().since(self.since).as_secs_f64()
    }

    fn contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }
}

pub(super) fn retrying(engine: &'static str, tries: u32, error: &Error) {
    tracing::warn!(target: TARGET, engine, tries, %error, "a request is made again");
}

impl Witness for Tracer {
    fn granted(&self, asked: &Asked, hold: &Hold) {
        if !asked.span.is_disabled() {
            asked.span.record("fence", hold.fence());
            asked.span.record("waited", asked.waited(hold));
            asked.span.record("contended", asked.contended());
        }
        let waited = || asked.waited(hold);
        tell!(debug, self, hold, "granted", waited = waited(), contended = asked.contended());
    }

    fn reentered(&self, asked: &Asked, hold: &Hold) {
        if !asked.span.is_disabled() {
            asked.span.record("fence", hold.fence());
        }
        tell!(trace, self, hold, "entered again");
    }

    fn timed_out(&self, asked: &Asked, name: &Name, mode: Mode, now: Moment) {
        tracing::debug!(
            target: TARGET,
            engine = self.scheme,
            name = %name,
            mode = %mode,
            waited = now.since(asked.since).as_secs_f64(),
            "timed out"
        );
    }

    fn released(&self, hold: &Hold) {
        tell!(debug, self, hold, "released", held = hold.held_for().as_secs_f64());
    }

    fn renewing(&self, hold: &Hold, lag: Option<Duration>) {
        tell!(trace, self, hold, "renewing", lag = lag.unwrap_or_default().as_secs_f64());
    }

    fn renewed(&self, hold: &Hold) {
        tell!(trace, self, hold, "renewed", remaining = hold.remaining().as_secs_f64());
    }

    fn renewal_failed(&self, hold: &Hold, error: &Error) {
        tell!(debug, self, hold, "renewal failed", error = tracing::field::display(error));
    }

    fn jeopardy(&self, hold: &Hold) {
        tell!(warn, self, hold, "in jeopardy", remaining = hold.remaining().as_secs_f64());
    }

    fn lost(&self, hold: &Hold, loss: &Loss) {
        let by = match loss {
            Loss::Evicted { actor, reason } => Some((&**actor, &**reason)),
            _ => None,
        };
        let (actor, reason) = (by.map(|by| by.0), by.map(|by| by.1));
        let held = || hold.held_for().as_secs_f64();
        tell!(
            warn,
            self,
            hold,
            "lost",
            held = held(),
            why = WHY[why(loss)],
            actor = actor,
            reason = reason
        );
    }

    fn converted(&self, hold: &Hold, from: Mode) {
        tell!(debug, self, hold, "converted", from = tracing::field::display(from));
    }

    fn left_behind(&self, leases: usize, within: Duration) {
        tracing::warn!(
            target: TARGET,
            engine = self.scheme,
            leases,
            within = within.as_secs_f64(),
            "left to expire"
        );
    }

    fn connection(&self, state: ConnectionState) {
        let engine = self.scheme;
        match state {
            ConnectionState::Connected => tracing::info!(target: TARGET, engine, "connected"),
            ConnectionState::Reconnected => tracing::info!(target: TARGET, engine, "reconnected"),
            ConnectionState::Suspended => tracing::warn!(target: TARGET, engine, "suspended"),
            ConnectionState::Lost => tracing::warn!(target: TARGET, engine, "connection lost"),
        }
    }

    #[cfg(feature = "ids")]
    fn ids_went_back(&self, name: &Name, seen: u64, found: u64) {
        let engine = self.scheme;
        tracing::error!(target: TARGET, engine, %name, seen, found, "the engine's ids went back");
    }

    #[cfg(feature = "ids")]
    fn ids_not_filled(&self, name: &Name, error: &Error) {
        let engine = self.scheme;
        tracing::warn!(target: TARGET, engine, %name, %error, "ids could not be fetched");
    }

    #[cfg(feature = "ids")]
    fn ids_end_soon(&self, name: &Name, days: u64) {
        let engine = self.scheme;
        tracing::warn!(target: TARGET, engine, %name, days, "the time of these ids ends soon");
    }
}
