//! Permits: a door that one claim at a time goes through, and behind it a line
//! of those who have permits.
//!
//! Whoever is first at the door joins the line behind it and waits there until
//! all in it fit; then it leaves the door to the next. So at most one claim
//! waits for permits, and every release wakes at most that one.

use std::sync::Arc;
use std::time::Duration;

use super::claims::{ATTEMPTS, removed};
use super::client::ConsensusClient;
use super::ensemble::{Departure, Ensemble, EntryAhead, QueueEntry, QueueId, QueuePart};
use super::leases::{LeaseStage, OwnLease};
use super::queue::{QueueStanding, fits, other_count, standing, weight};
use crate::claim::{Claim, Mode, Stance, Verdict, Wants};
use crate::error::Result;

/// How long who only tries waits for somebody who just passes the door.
const MOMENT: Duration = Duration::from_millis(500);

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn ask_for_permits(
        self: &Arc<Self>,
        claim: &Claim,
        mut lease: OwnLease,
        take: u32,
        of: u32,
    ) -> Result<Verdict> {
        let line = QueueId::of(&claim.ticket.name, QueuePart::Permits);
        if !lease.entries.is_empty() && !lease.is_doubtful() {
            let permits = self.ensemble.list(line.clone(), None).await?;
            if are_in(&lease.entries, &permits) {
                return self.count(claim, lease, &permits, of).await;
            }
            // Somebody has removed them: what is left goes too. The claim goes on, so
            // that nothing is withdrawn.
            self.leases.dismiss(claim.ticket.id);
            self.clear(&lease, None).await?;
            let stragglers = lease.stragglers;
            lease = OwnLease { stragglers, ..OwnLease::new(claim, lease.session) };
            self.leases.put(lease.clone());
        }
        if let Some(behind) = self.stand_at_the_door(claim, &mut lease).await? {
            return Ok(behind);
        }
        let joined =
            self.join(claim, &mut lease, line, Mode::Permits { take, of }, Wants::Lease).await?;
        let others: Vec<QueueEntry> =
            joined.line.iter().filter(|entry| entry.id != Some(claim.ticket.id)).cloned().collect();
        if let Some(mode) = self.other_count(&others, of).await? {
            return self.refuse(claim, mode).await;
        }
        self.count(claim, lease, &joined.line, of).await
    }

    /// Goes to the door; `None` once it is the first there.
    async fn stand_at_the_door(
        self: &Arc<Self>,
        claim: &Claim,
        lease: &mut OwnLease,
    ) -> Result<Option<Verdict>> {
        let line = QueueId::of(&claim.ticket.name, QueuePart::Door);
        let mut removals = 0;
        while removals < ATTEMPTS {
            let found = match &lease.door {
                Some(mine) if !lease.doubts.contains(&QueuePart::Door) => {
                    let found = self.ensemble.list(line.clone(), Some(mine.clone())).await?;
                    self.move_up(lease, &found);
                    found
                }
                _ => {
                    self.join(claim, lease, line.clone(), Mode::Exclusive, Wants::Lease).await?.line
                }
            };
            let Some(mine) = &lease.door else { continue };
            match standing(&found, mine) {
                QueueStanding::Holds => return Ok(None),
                QueueStanding::Behind(ahead) => {
                    if let Some(verdict) = self.behind(claim, &ahead).await? {
                        return Ok(Some(verdict));
                    }
                }
                QueueStanding::OtherKind(mode) => return self.refuse(claim, mode).await.map(Some),
                QueueStanding::Absent => {
                    lease.door = None;
                    removals += 1;
                }
            }
        }
        Err(removed())
    }

    /// Others are at the door; but it is those behind it who are in the way. If
    /// nobody is, then somebody just passes, and even who only tries waits for
    /// that a moment: `None` once the door has moved on.
    async fn behind(
        self: &Arc<Self>,
        claim: &Claim,
        ahead: &EntryAhead,
    ) -> Result<Option<Verdict>> {
        let Mode::Permits { take, of } = self.way(claim.ticket.mode) else { return Ok(None) };
        let line = QueueId::of(&claim.ticket.name, QueuePart::Permits);
        let permits = self.ensemble.list(line, None).await?;
        if let Some(mode) = self.other_count(&permits, of).await? {
            return self.refuse(claim, mode).await.map(Some);
        }
        let room = permits.iter().map(weight).sum::<u64>() + u64::from(take) <= u64::from(of);
        if room && claim.stance == Stance::Try && self.passes(ahead).await? {
            return Ok(None);
        }
        self.stand(claim, Some(ahead.clone()), &permits).await.map(Some)
    }

    /// Whether somebody at the door goes within a moment.
    async fn passes(&self, ahead: &EntryAhead) -> Result<bool> {
        tokio::select! {
            biased;
            passed = self.passed(ahead, Mode::Exclusive) => passed.map(|()| true),
            () = self.clock.sleep_until(self.clock.now().after(MOMENT)) => Ok(false),
        }
    }

    /// First at the door and in line: are there enough permits?
    async fn count(
        self: &Arc<Self>,
        claim: &Claim,
        lease: OwnLease,
        permits: &[QueueEntry],
        of: u32,
    ) -> Result<Verdict> {
        if !fits(permits, of) {
            return self.stand(claim, None, permits).await;
        }
        self.leave_the_door(&lease).await;
        self.hold(claim, lease).await
    }

    /// Makes room at the door. Waited for, so that whoever hears of the grant
    /// finds the door free; and done even if nobody waits any more.
    pub(super) async fn leave_the_door(self: &Arc<Self>, lease: &OwnLease) {
        let left = |lease: &mut OwnLease| {
            let door = lease.door.take()?;
            Some((door, lease.waited, lease.take_straggler(QueuePart::Door)))
        };
        if let Some((door, waited, late)) = self.leases.update(lease.ticket.id, left).flatten() {
            let (client, lease) = (Arc::clone(self), lease.clone());
            let left = self.home.spawn(async move {
                client.see_off(&lease.session, &door, Departure::Front { waited }).await;
                if late {
                    client.keep_out(&lease, &[QueuePart::Door]).await;
                }
            });
            let _ = left.await;
        }
    }

    /// Whether somebody counts differently. Where the line does not tell, one
    /// of the others is asked; they all count alike.
    async fn other_count(&self, others: &[QueueEntry], of: u32) -> Result<Option<Mode>> {
        let silent = |entry: &&QueueEntry| matches!(entry.mode, Mode::Permits { of: 0, .. });
        let silent: Vec<&QueueEntry> = others.iter().filter(silent).collect();
        let Some(first) = silent.first() else { return Ok(other_count(others, of)) };
        let mut told = self.counts(&[first]).await?;
        if told.is_none() {
            // Somebody has written over it. The others may tell.
            told = self.counts(&silent[1..]).await?;
        }
        Ok(told.and_then(|mode| other_count(&[QueueEntry { mode, ..(*first).clone() }], of)))
    }

    /// How one of these counts.
    async fn counts(&self, entries: &[&QueueEntry]) -> Result<Option<Mode>> {
        let keys = entries.iter().map(|entry| Arc::clone(&entry.key)).collect();
        let seen = self.ensemble.look(keys).await?;
        let modes = seen.into_iter().flatten().filter_map(|(metadata, _)| metadata.mode);
        Ok(modes.into_iter().find(|mode| matches!(mode, Mode::Permits { .. })))
    }

    /// A look at the line for a claim that waits for permits: it holds now, if
    /// they fit and are all there.
    pub(super) fn has_permits(self: &Arc<Self>, lease: &OwnLease, permits: &[QueueEntry]) -> bool {
        let Mode::Permits { of, .. } = self.way(lease.ticket.mode) else { return false };
        let waits = matches!(lease.stage, LeaseStage::Queued { ahead: None });
        waits && are_in(&lease.entries, permits) && fits(permits, of)
    }
}

/// Whether all of these are in line.
pub(super) fn are_in(entries: &[QueueEntry], line: &[QueueEntry]) -> bool {
    entries.iter().all(|mine| line.iter().any(|entry| entry.is_same(mine)))
}
