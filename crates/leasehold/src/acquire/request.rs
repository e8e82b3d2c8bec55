//! Requests: what is asked for, and how hard.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Mode, Owner, Stance, Ticket, Wants};
use crate::clock::{Clock, Moment};
use crate::engine::Profile;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::Terms;
use crate::layers::guardrail::check_span;
use crate::name::Name;

/// What a recipe asks for.
#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) owner: Owner,
    /// Whether the owner may take what it already holds.
    pub(crate) reentrant: bool,
    pub(crate) terms: Terms,
    pub(crate) meta: Option<Arc<str>>,
    pub(crate) fair: bool,
    pub(crate) wants: Wants,
    /// What it proposes, if it is a candidacy.
    pub(crate) candidate: Option<Arc<[u8]>>,
    pub(crate) effort: Effort,
}

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// Once.
    Try,
    /// Until granted, or until this moment.
    Wait { since: Moment, until: Moment },
    /// So many times, with pauses, and not after this moment.
    Attempts { count: u32, every: Duration, since: Moment, until: Moment },
}

impl Effort {
    /// A wait of `limit` at most. Who has no time to wait tries once, and takes
    /// what the engine answers.
    pub(crate) fn wait(since: Moment, limit: Duration) -> Self {
        let until = since.after(limit);
        if limit.is_zero() {
            return Self::Attempts { count: 1, every: Duration::ZERO, since, until };
        }
        Self::Wait { since, until }
    }

    /// When the wait began: now, for a try.
    pub(super) fn since(self, clock: &Clock) -> Moment {
        match self {
            Self::Wait { since, .. } | Self::Attempts { since, .. } => since,
            Self::Try => clock.now(),
        }
    }
}

impl LockRequest {
    /// Refuses what no engine could do, and what the claim does not tell it.
    pub(super) fn check(&self, profile: &Profile) -> Result<()> {
        if !self.terms.hold_at_least.is_zero() && !profile.keep_closed {
            let text = format!("the {} engine cannot keep a released name closed", profile.scheme);
            return Err(Error::new(ErrorKind::Unsupported, text + " (hold_at_least)"));
        }
        check_span("hold_at_least", self.terms.hold_at_least)?;
        match self.terms.max_hold {
            Some(Duration::ZERO) => {
                Err(Error::invalid("max_hold is zero: such a lease would be lost at once"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it stands in line with those of this process. An owner's claims
    /// do so in any case, or it would wait for itself.
    pub(super) const fn is_gated(&self) -> bool {
        !self.fair || self.reentrant
    }

    pub(super) fn claim(&self, ticket: Ticket, stance: Stance) -> Claim {
        let mut claim = Claim::new(ticket, self.owner.clone(), self.terms.ttl);
        claim.lock_delay = self.terms.lock_delay;
        claim.renewed = self.terms.renewed;
        claim.meta.clone_from(&self.meta);
        claim.fair = self.fair;
        claim.wants = self.wants;
        claim.candidate.clone_from(&self.candidate);
        claim.stance = stance;
        claim
    }
}
