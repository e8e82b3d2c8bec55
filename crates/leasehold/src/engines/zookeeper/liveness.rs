//! What an answer proves about the life of a session.
//!
//! The leader ends sessions. It hears of a client from the server that the
//! client talks to, every half tick: so that an answer came through the leader
//! proves what the leader knew by then, and not the request itself. Whatever
//! was heard by the server half a tick before is known to the leader.
//!
//! And it is the leader still only if a majority follows it. It answers a `sync`
//! from what it knows, for some ticks after the others have left it; so an answer
//! proves something only if a majority had to agree: to a write.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Moment;
use crate::engines::consensus::Session;

/// The signs of life on one connection.
#[derive(Debug)]
pub(super) struct LivenessProof {
    session: Arc<Session>,
    /// How far the leader is behind.
    lag: Duration,
    /// How far apart our signs of life are, at most, while all is well.
    gap: Duration,
    beats: Mutex<VecDeque<Beat>>,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    sent_at: Moment,
    heard_at: Moment,
}

impl LivenessProof {
    /// What is certain about a session is this much less than its time-out: the
    /// last sign of life that the leader knows of may be so old.
    pub(super) fn cost(lag: Duration, gap: Duration) -> Duration {
        lag + gap
    }

    /// The leader, if it was one, knows of what was sent at `attached_at`.
    pub(super) fn new(
        session: &Arc<Session>,
        lag: Duration,
        gap: Duration,
        attached_at: Moment,
    ) -> Self {
        let first = Beat { sent_at: attached_at, heard_at: Moment::default() };
        Self { session: Arc::clone(session), lag, gap, beats: Mutex::new(VecDeque::from([first])) }
    }

    /// An answer has come, from the server alone or `agreed` by a majority.
    pub(super) fn heard(&self, sent_at: Moment, now: Moment, agreed: bool) {
        let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        if agreed {
            let known = |beat: &Beat| beat.heard_at.after(self.lag) <= sent_at;
            // The newest that is known stands first, before those that may not be.
            while beats.get(1).is_some_and(known) {
                beats.pop_front();
            }
            let newest = beats.front().map_or(sent_at, |beat| beat.sent_at);
            let proven = newest.after(Self::cost(self.lag, self.gap));
            self.session.prove(sent_at.min(proven));
        }
        // A few per gap are enough, however many requests there are.
        let last = beats.back().map_or(Moment::default(), |beat| beat.sent_at);
        if sent_at.since(last) >= self.gap / 8 {
            beats.push_back(Beat { sent_at, heard_at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Duration = Duration::from_secs(1);
    const GAP: Duration = Duration::from_secs(2);

    fn at(second: u64) -> Moment {
        Moment::default().after(Duration::from_secs(second))
    }

    fn proof() -> (Arc<Session>, LivenessProof) {
        let session = Arc::new(Session::new(1, 10 * GAP, Duration::ZERO, at(100)));
        let proof = LivenessProof::new(&session, LAG, GAP, at(100));
        (session, proof)
    }

    #[test]
    fn while_signs_are_frequent_an_answer_proves_its_own_moment() {
        let (session, proof) = proof();
        for second in 101..120 {
            proof.heard(at(second), at(second), false);
        }
        assert_eq!(session.proven(), at(100), "a server alone proves nothing");
        proof.heard(at(120), at(120), true);
        assert_eq!(session.proven(), at(120));
    }

    #[test]
    fn after_a_silence_the_first_answer_proves_little() {
        let (session, proof) = proof();
        proof.heard(at(110), at(110), true);
        assert_eq!(session.proven(), at(103), "the leader may know of nothing since 100");
        proof.heard(at(111), at(111), true);
        assert_eq!(session.proven(), at(111), "by now it has heard of 110");
    }
}
