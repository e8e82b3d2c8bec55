//! Renewals that are due and have not left yet.
//!
//! What is due at once leaves in portions, the most urgent first, so that no
//! request keeps an engine or home from everyone else for long.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Moment;
use crate::hold::{Hold, Timing};

/// How many renewals leave in one request.
pub(super) const PORTION: usize = 1000;
/// Moments this close, in bits of nanoseconds (17 ms), are one.
const GRAIN: u32 = 24;

/// Holds by the moment at which their renewals have to leave, whatever has become
/// of those before. Each of them knows that it is here, and is here once.
#[derive(Debug, Default)]
pub(super) struct RenewalQueue(BTreeMap<Moment, Vec<Arc<Hold>>>);

impl RenewalQueue {
    /// `hold` was due at `due`.
    pub(super) fn push(&mut self, hold: Arc<Hold>, due: Moment, now: Moment) {
        let latest = latest(&hold, due, now).nanos() >> GRAIN << GRAIN;
        self.0.entry(Moment::from_nanos(latest)).or_default().push(hold);
    }

    /// When the most urgent of them has to leave.
    pub(super) fn latest(&self) -> Option<Moment> {
        self.0.first_key_value().map(|(latest, _)| *latest)
    }

    /// The most urgent of them, so many at most.
    pub(super) fn portion(&mut self) -> Vec<Arc<Hold>> {
        let mut portion = Vec::new();
        while let Some(mut first) = self.0.first_entry() {
            let holds = first.get_mut();
            let rest = holds.len().saturating_sub(PORTION - portion.len());
            portion.extend(holds.drain(rest..));
            if rest > 0 {
                break;
            }
            first.remove();
        }
        portion
    }
}

/// A renewal may leave a quarter of its interval late, and not so late if little
/// time is left: two more must still fit before the lease ends.
fn latest(hold: &Hold, due: Moment, now: Moment) -> Moment {
    let Timing { ends_at, ttl, .. } = hold.timing();
    let due = if due == Moment::default() { now } else { due };
    due.after(ttl / 12).min(ends_at.before(ttl / 3))
}
