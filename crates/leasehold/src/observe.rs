//! What an operator can see: a span for each acquire, events of each lease, and
//! metrics. One line where it happens; without the features `trace` and
//! `metrics` these lines compile to nothing.
//!
//! Names go into spans and events, never into labels of metrics: there may be
//! millions. Lease ids are secrets and go nowhere.

#[cfg(feature = "metrics")]
mod meters;
#[cfg(all(test, feature = "metrics", feature = "trace"))]
mod tests;
#[cfg(feature = "trace")]
mod tracer;

#[cfg(feature = "metrics")]
use meters::Meters;
#[cfg(feature = "trace")]
use tracer::Tracer;

use std::time::Duration;

use crate::claim::Mode;
use crate::clock::Moment;
use crate::connection::ConnectionState;
use crate::engine::Loss;
use crate::error::Error;
use crate::hold::Hold;
use crate::name::Name;

/// Sees nothing: stands in for a feature that is off.
#[derive(Debug)]
#[cfg(not(all(feature = "metrics", feature = "trace")))]
struct Nobody;

#[cfg(not(feature = "metrics"))]
type Meters = Nobody;
#[cfg(not(feature = "trace"))]
type Tracer = Nobody;

#[cfg(not(all(feature = "metrics", feature = "trace")))]
impl Nobody {
    const fn new(_: &'static str) -> Self {
        Self
    }
}

#[cfg(not(all(feature = "metrics", feature = "trace")))]
impl Witness for Nobody {}

/// What one client shows of itself.
#[derive(Debug)]
pub(crate) struct Observer {
    tracer: Tracer,
    meters: Meters,
}

/// Declares what can be seen: for a witness to care about or not, and for the
/// observer to tell all witnesses.
macro_rules! sights {
    ($($(#[$doc:meta])* $sight:ident($($fact:ident: $of:ty),*);)*) => {
        trait Witness {$(
            $(#[$doc])*
            #[inline]
            fn $sight(&self, $($fact: $of),*) {
                let _ = ($($fact,)*);
            }
        )*}

        impl Observer {$(
            $(#[$doc])*
            #[inline]
            pub(crate) fn $sight(&self, $($fact: $of),*) {
                // Who hears of it may look at the numbers at once.
                self.meters.$sight($($fact),*);
                self.tracer.$sight($($fact),*);
            }
        )*}
    };
}

sights! {
    /// The engine has granted what was asked for.
    granted(asked: &Asked, hold: &Hold);
    /// The owner has taken a share in what it already holds.
    reentered(asked: &Asked, hold: &Hold);
    /// The time to wait was up.
    timed_out(asked: &Asked, name: &Name, mode: Mode, now: Moment);
    /// A held lease was given back.
    released(hold: &Hold);
    /// A renewal leaves, so much later than planned, if it was planned.
    renewing(hold: &Hold, lag: Option<Duration>);
    /// A renewal was confirmed.
    renewed(hold: &Hold);
    /// A renewal was not answered.
    renewal_failed(hold: &Hold, error: &Error);
    /// The lease is ours until its deadline, and then not, unless we hear more.
    jeopardy(hold: &Hold);
    /// The lease ended before its guard.
    lost(hold: &Hold, loss: &Loss);
    /// A held lease was `from` before and has another mode now.
    converted(hold: &Hold, from: Mode);
    /// The client ends before so many leases were given back: they end by
    /// themselves, the last of them within this time.
    left_behind(leases: usize, within: Duration);
    /// The connection to the engine has changed.
    connection(state: ConnectionState);
    /// A number of ids is below one that was handed out before: it was jumped.
    #[cfg(feature = "ids")]
    ids_went_back(name: &Name, seen: u64, found: u64);
    /// Ids could not be fetched.
    #[cfg(feature = "ids")]
    ids_not_filled(name: &Name, error: &Error);
    /// Less than a year is left until the time of the ids ends.
    #[cfg(feature = "ids")]
    ids_end_soon(name: &Name, days: u64);
}

impl Observer {
    pub(crate) fn new(scheme: &'static str) -> Self {
        Self { tracer: Tracer::new(scheme), meters: Meters::new(scheme) }
    }

    /// Somebody asks for a name, or has since the moment that `since` tells.
    #[cfg(any(feature = "metrics", feature = "trace"))]
    pub(crate) fn asked(&self, name: &Name, mode: Mode, since: impl FnOnce() -> Moment) -> Asked {
        #[cfg(not(feature = "trace"))]
        let _ = (name, mode);
        Asked {
            since: since(),
            #[cfg(feature = "trace")]
            span: self.tracer.span(name, mode),
            #[cfg(feature = "trace")]
            contended: false.into(),
        }
    }

    #[cfg(not(any(feature = "metrics", feature = "trace")))]
    #[expect(clippy::unused_self, reason = "as with the features")]
    pub(crate) fn asked(&self, _: &Name, _: Mode, _: impl FnOnce() -> Moment) -> Asked {
        Asked {}
    }
}

/// A request to an engine of this scheme has failed several times, and is made
/// again.
pub(crate) fn retrying(scheme: &'static str, tries: u32, error: &Error) {
    #[cfg(feature = "trace")]
    tracer::retrying(scheme, tries, error);
    #[cfg(not(feature = "trace"))]
    let _ = (scheme, tries, error);
}

/// One request, as long as it is not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    #[cfg(any(feature = "metrics", feature = "trace"))]
    since: Moment,
    #[cfg(feature = "trace")]
    span: tracing::Span,
    /// Whether the engine was busy at least once.
    #[cfg(feature = "trace")]
    contended: std::sync::atomic::AtomicBool,
}

impl Asked {
    /// The name was busy.
    #[inline]
    pub(crate) fn busy(&self) {
        #[cfg(feature = "trace")]
        self.contended.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// What is done at once, within the span of the request.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(feature = "trace")]
        return self.span.in_scope(work);
        #[cfg(not(feature = "trace"))]
        work()
    }

    /// The work on the answer, within the span of the request wherever it runs.
    #[cfg(feature = "trace")]
    pub(crate) fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        tracing::Instrument::instrument(work, self.span.clone())
    }

    #[cfg(not(feature = "trace"))]
    pub(crate) fn around<F: Future>(&self, work: F) -> F {
        work
    }
}

/// One word for each loss.
#[cfg(any(feature = "metrics", feature = "trace"))]
const WHY: [&str; 5] = ["expired", "evicted", "disconnected", "max_hold", "gone"];

/// The place of a loss in [`WHY`].
#[cfg(any(feature = "metrics", feature = "trace"))]
const fn why(loss: &Loss) -> usize {
    match loss {
        Loss::Expired => 0,
        Loss::Evicted { .. } => 1,
        Loss::Disconnected => 2,
        Loss::MaxHold => 3,
        Loss::Gone => 4,
    }
}
