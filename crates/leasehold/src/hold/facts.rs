//! What is known of a ticket at one moment.

use std::time::Duration;

use super::standing::Standing;
use crate::claim::{Mode, Predecessor};
use crate::clock::Moment;
use crate::engine::Loss;
use crate::mutant::{self, Mutant};

#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) phase: HoldPhase,
    pub(super) mode: Mode,
    /// As what the engine may still have it, while a conversion is not settled;
    /// `mode` is then the weaker of the two.
    pub(super) before: Option<Mode>,
    pub(super) fence: u64,
    /// What is handed over up to this fence was meant for an earlier place.
    pub(super) floor: u64,
    pub(super) predecessor: Predecessor,
    pub(super) since: Moment,
    /// When the request left that it was granted to.
    pub(super) asked: Moment,
    /// The send time of the last request that was confirmed.
    pub(super) confirmed: Moment,
    /// From here on it may be someone else's.
    pub(super) deadline: Moment,
    /// When the keeper looks at it next; its key in the schedule.
    pub(super) due: Moment,
    /// Since when its renewal waits to leave, if it does.
    pub(super) renewal_waits: Option<Moment>,
    /// An acquire or a renewal is under way: no other verb may be.
    pub(super) verb_under_way: bool,
    /// The waiting loop should look for itself.
    pub(super) look: bool,
    /// Somebody has asked the holder to let go.
    pub(super) wanted: bool,
    /// How long it is asked to run; grows when it is re-entered for longer.
    pub(super) ttl: Duration,
    /// How long it was last told to run, which may be less.
    pub(super) told: Duration,
    /// When a fixed lease ends; never, for one that is renewed.
    pub(super) ends: Moment,
    /// How many guards share it.
    pub(super) shares: usize,
    /// Whether it has come to its user.
    pub(super) is_seen: bool,
    /// When it was given back; never, for one that was not.
    pub(super) given_back: Moment,
    /// Whether anyone has ever waited for a change: to wake nobody is not free.
    pub(super) is_watched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HoldPhase {
    /// Asked for, and perhaps in a queue.
    Asked,
    Held,
    Jeopardy,
    Lost(Loss),
    Released,
}

impl HoldPhase {
    /// How it stands, whatever the clock says.
    pub(super) fn standing(&self) -> Standing {
        match self {
            Self::Asked | Self::Held => Standing::Held,
            Self::Jeopardy => Standing::Jeopardy,
            Self::Lost(loss) => Standing::Lost(loss.clone()),
            Self::Released => Standing::Released,
        }
    }
}

impl Facts {
    /// Of a ticket that was asked for, and of which no more is known.
    pub(super) fn new(mode: Mode, ttl: Duration) -> Self {
        Self {
            phase: HoldPhase::Asked,
            mode,
            before: None,
            fence: 0,
            floor: 0,
            predecessor: Predecessor::Unknown,
            since: Moment::NEVER,
            asked: Moment::default(),
            confirmed: Moment::default(),
            deadline: Moment::NEVER,
            due: Moment::NEVER,
            renewal_waits: None,
            verb_under_way: false,
            look: false,
            wanted: false,
            ttl,
            told: ttl,
            ends: Moment::NEVER,
            shares: 1,
            is_seen: false,
            given_back: Moment::NEVER,
            is_watched: false,
        }
    }

    pub(super) const fn is_held(&self) -> bool {
        matches!(self.phase, HoldPhase::Held | HoldPhase::Jeopardy)
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.phase, HoldPhase::Lost(_) | HoldPhase::Released)
    }

    /// The engine has confirmed it, in answer to a request that left then. The
    /// deadline follows, down as well as up: a server may grant less than before.
    /// Answers may come out of order, and the request that left last counts.
    pub(super) fn confirm(&mut self, sent_at: Moment, ttl: Duration, drift: Duration) {
        if sent_at < self.confirmed {
            return;
        }
        let deadline = sent_at.after(ttl).before(drift).min(self.ends);
        let grows = self.deadline == Moment::NEVER || deadline > self.deadline;
        if grows || !mutant::lives(Mutant::DeadlineNeverShrinks) {
            self.deadline = deadline;
        }
        self.confirmed = sent_at;
        self.told = ttl;
    }

    pub(super) fn hold(&mut self, fence: u64, predecessor: Predecessor, now: Moment) {
        self.phase = HoldPhase::Held;
        self.fence = fence;
        self.predecessor = predecessor;
        self.since = now;
    }
}
