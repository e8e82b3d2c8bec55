//! Waiting: for the one entry before ours, or for permits to be given back.

use std::sync::Arc;

use super::claims::fence;
use super::client::ConsensusClient;
use super::ensemble::{
    Ensemble, EntryAhead, KeyChange, QueueEntry, QueueId, QueuePart, WatchedKey,
};
use super::leases::{LeaseStage, OwnLease, Task};
use super::metadata::Metadata;
use super::permits::are_in;
use super::queue::{QueueStanding, standing};
use super::upkeep::{PAUSE, SETTLED};
use crate::claim::{Mode, Predecessor, Ticket, Wake};
use crate::clock::Moment;
use crate::error::Result;

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn wait(self: Arc<Self>, ticket: Ticket, until: Moment) -> Result<Wake> {
        let Some(lease) = self.leases.get(ticket.id) else { return Ok(Wake::Look) };
        let LeaseStage::Queued { ahead } = lease.stage.clone() else { return Ok(Wake::Look) };
        let turn = async {
            match (ahead, self.way(ticket.mode)) {
                (Some(ahead), Mode::Permits { .. }) => self.turn_at_the_door(ahead).await,
                (None, _) => self.permits_come(&lease).await,
                (Some(ahead), _) => self.turn_in_the_queue(&lease, ahead).await,
            }
        };
        tokio::select! {
            biased;
            wake = turn => match wake {
                Ok(wake) => Ok(wake),
                // The claim that follows says what is wrong, or is tried again.
                Err(_) => {
                    self.clock.sleep_until(self.clock.now().after(PAUSE)).await;
                    Ok(Wake::Look)
                }
            },
            // Then it has to join again, in another session.
            () = lease.session.ended() => Ok(Wake::Look),
            () = self.clock.sleep_until(until) => Ok(Wake::Look),
        }
    }

    /// Waits until an entry has gone or changed, for somebody who takes the name like
    /// this. When watches break they all break at once: as long as the entry is there
    /// and what it was, nobody behind it need list the line.
    pub(super) async fn passed(&self, ahead: &EntryAhead, waits: Mode) -> Result<()> {
        while let Some(watched) = self.ensemble.watch(Arc::clone(&ahead.key)).await? {
            if !is_still(ahead, &watched, waits) || watched.change.await != KeyChange::Doubt {
                break;
            }
        }
        Ok(())
    }

    async fn turn_in_the_queue(
        self: &Arc<Self>,
        lease: &OwnLease,
        ahead: EntryAhead,
    ) -> Result<Wake> {
        let (mut lease, mut ahead) = (lease.clone(), ahead);
        loop {
            self.passed(&ahead, lease.ticket.mode).await?;
            let Some(mine) = lease.entries.first().cloned() else { return Ok(Wake::Look) };
            let line = QueueId::of(&lease.ticket.name, QueuePart::Queue);
            let queue = self.ensemble.list(line, Some(mine.clone())).await?;
            self.move_up(&mut lease, &queue);
            match standing(&queue, &mine) {
                QueueStanding::Holds => {
                    let wake = self.handed_over(&lease);
                    self.announce(&lease, mine);
                    return Ok(wake);
                }
                QueueStanding::Behind(next) => ahead = next,
                QueueStanding::OtherKind(_) | QueueStanding::Absent => return Ok(Wake::Look),
            }
        }
    }

    /// Notes who holds now, unless that is over in a moment: most are.
    pub(super) fn announce(self: &Arc<Self>, lease: &OwnLease, entry: QueueEntry) {
        let (client, id) = (Arc::clone(self), lease.ticket.id);
        let task = async move {
            client.clock.sleep_until(client.clock.now().after(SETTLED)).await;
            // Nothing depends on it.
            let _ = client.ensemble.announce(entry).await;
        };
        let task = Arc::new(Task(self.home.spawn(task).abort_handle()));
        self.leases.update(id, |lease| lease.tasks.push(task));
    }

    /// The claim that follows goes through the door; it is driven to its end,
    /// which a wait is not.
    async fn turn_at_the_door(&self, ahead: EntryAhead) -> Result<Wake> {
        self.passed(&ahead, Mode::Exclusive).await?;
        Ok(Wake::Look)
    }

    async fn permits_come(self: &Arc<Self>, lease: &OwnLease) -> Result<Wake> {
        loop {
            let line = QueueId::of(&lease.ticket.name, QueuePart::Permits);
            let watched = self.ensemble.watch_line(line).await?;
            if !are_in(&lease.entries, &watched.line) {
                return Ok(Wake::Look);
            }
            if self.has_permits(lease, &watched.line) {
                let granted = self.handed_over(lease);
                self.leave_the_door(lease).await;
                return Ok(granted);
            }
            watched.change.await;
        }
    }

    /// The turn has come. The lease runs as long as the place would have: both
    /// are the session's. What has been told of it meanwhile counts: without the
    /// entries that were looked at there is nothing to hold.
    fn handed_over(self: &Arc<Self>, lease: &OwnLease) -> Wake {
        let fence = fence(&lease.entries);
        let take = |now: &mut OwnLease| {
            let same = now.entries == lease.entries;
            if same {
                now.stage = LeaseStage::Held { fence };
            }
            same
        };
        if lease.session.is_over() || self.leases.update(lease.ticket.id, take) != Some(true) {
            return Wake::Look;
        }
        if let Some(span) = lease.fixed_for {
            self.end_at(lease.ticket.id, self.clock.now().after(span));
        }
        Wake::Granted { fence, predecessor: Predecessor::Unknown }
    }
}

/// Whether what is watched is the entry that was seen ahead, and stands in the way of
/// somebody who takes the name like this.
fn is_still(ahead: &EntryAhead, watched: &WatchedKey, waits: Mode) -> bool {
    let Some(order) = watched.order else { return true };
    let reads = |mode| mode == Some(Mode::Read);
    let gives_way = reads(Some(waits)) && reads(Metadata::read(&watched.bytes).mode);
    order == ahead.order && !gives_way
}
