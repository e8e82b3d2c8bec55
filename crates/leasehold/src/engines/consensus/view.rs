//! What operators see, and how they take a lease away.

use std::sync::Arc;
use std::time::Duration;

use super::client::ConsensusClient;
use super::ensemble::{Departure, Ensemble, QueueEntry, QueueId, QueuePart, TxnStep};
use super::mark::{EntryMark, REVOKE};
use super::metadata::Metadata;
use super::queue::{fits, holders};
use crate::claim::{LeaseId, Mode};
use crate::clock::wall_micros;
use crate::engine::{Evicted, Eviction, Held, Listing, Page, Queued, Selector, Status, Target};
use crate::error::Result;
use crate::name::Name;

/// How long a holder may take to leave by itself once it is told to: so it
/// hears why, and not only that its entry has gone.
const COURTESY: Duration = Duration::from_millis(250);

/// One claim as its entries show it.
#[derive(Clone, Debug)]
struct SeenClaim {
    entries: Vec<QueueEntry>,
    id: Option<LeaseId>,
    metadata: Metadata,
    mode: Mode,
    fence: u64,
}

impl SeenClaim {
    fn held(&self) -> Held {
        Held {
            label: Arc::clone(&self.metadata.label),
            mode: self.mode,
            fence: Some(self.fence),
            held_for: None,
            time_left: None,
            meta: self.metadata.meta.clone(),
        }
    }

    fn queued(&self) -> Queued {
        Queued {
            label: Arc::clone(&self.metadata.label),
            mode: self.mode,
            waiting_for: self.metadata.age(),
        }
    }

    /// How long the name stays closed by what is left of it, if nobody has it.
    fn closed_for(&self) -> Option<Duration> {
        match self.metadata.mark {
            Some(EntryMark::Closed { until }) => {
                Some(Duration::from_micros(until.saturating_sub(wall_micros())))
            }
            _ => None,
        }
    }

    const fn is(&self, target: Target) -> bool {
        match (target, self.id) {
            (Target::Fence(fence), _) => self.fence == fence,
            (Target::Lease(wanted), Some(id)) => wanted.to_bits() == id.to_bits(),
            (Target::Lease(_), None) => false,
            (Target::All, _) => true,
        }
    }
}

impl<E: Ensemble> ConsensusClient<E> {
    pub(super) async fn inspect(self: Arc<Self>, select: Selector, page: Page) -> Result<Listing> {
        let (names, more) = match select {
            Selector::Name(name) => (vec![name], false),
            Selector::Prefix(space, prefix) => {
                self.ensemble.names(space, prefix, page.after, page.size).await?
            }
        };
        let mut shown = Vec::new();
        for name in names {
            shown.push(self.status(name).await?);
        }
        shown.retain(Status::is_busy);
        Ok(Listing::new(shown, more))
    }

    async fn status(&self, name: Name) -> Result<Status> {
        let (holding, waiting) = self.seen(&name).await?;
        let mut status = Status::new(name);
        status.closed_for = holding.iter().filter_map(SeenClaim::closed_for).max();
        let held = holding.iter().filter(|seen| seen.closed_for().is_none());
        status.holders = held.map(SeenClaim::held).collect();
        status.waiters = waiting.iter().map(SeenClaim::queued).collect();
        Ok(status)
    }

    /// Who holds a name and who waits for it.
    async fn seen(&self, name: &Name) -> Result<(Vec<SeenClaim>, Vec<SeenClaim>)> {
        let queue = self.ensemble.list(QueueId::of(name, QueuePart::Queue), None).await?;
        if queue.is_empty() {
            return self.seen_with_permits(name).await;
        }
        let front = holders(&queue).len();
        let mut holding = self.look_closely(queue).await?;
        let waiting = holding.split_off(front.min(holding.len()));
        Ok((holding, waiting))
    }

    async fn seen_with_permits(&self, name: &Name) -> Result<(Vec<SeenClaim>, Vec<SeenClaim>)> {
        let permits = self.ensemble.list(QueueId::of(name, QueuePart::Permits), None).await?;
        let door = self.ensemble.list(QueueId::of(name, QueuePart::Door), None).await?;
        let mut holding = grouped(self.look_closely(permits).await?);
        let mut waiting = self.look_closely(door).await?;
        // The door does not say what one wants behind it.
        waiting.iter_mut().for_each(|seen| seen.mode = seen.metadata.mode.unwrap_or(seen.mode));
        let of = holding.iter().find_map(|seen| match seen.mode {
            Mode::Permits { of, .. } if of > 0 => Some(of),
            _ => None,
        });
        // Of those who are still there: who was listed may have gone before the look.
        let there: Vec<QueueEntry> = holding.iter().flat_map(|seen| seen.entries.clone()).collect();
        if of.is_some_and(|of| !fits(&there, of)) {
            // The last to join is still at the door.
            holding.pop();
        }
        waiting.retain(|seen| !holding.iter().any(|holder| holder.id == seen.id));
        Ok((holding, waiting))
    }

    /// Entries with what they say about themselves; those that have gone
    /// meanwhile are left out.
    async fn look_closely(&self, entries: Vec<QueueEntry>) -> Result<Vec<SeenClaim>> {
        let keys = entries.iter().map(|entry| Arc::clone(&entry.key)).collect();
        let looks = self.ensemble.look(keys).await?;
        let seen = entries.into_iter().zip(looks).filter_map(|(entry, look)| {
            let (metadata, fence) = look?;
            let (id, mode) = (entry.id, shown(entry.mode, &metadata));
            Some(SeenClaim { entries: vec![entry], id, metadata, mode, fence })
        });
        Ok(seen.collect())
    }

    pub(super) async fn evict(self: Arc<Self>, eviction: Eviction) -> Result<Evicted> {
        let mut written = false;
        let evicted = self.take_all_away(&eviction, &mut written).await;
        // What has been written stays, whatever fails after it.
        evicted.map_err(|error| if written { error.unknown() } else { error })
    }

    /// Takes away what is to go; `written` from the first answer on that says so.
    async fn take_all_away(&self, eviction: &Eviction, written: &mut bool) -> Result<Evicted> {
        let (mut holding, _) = self.seen(&eviction.name).await?;
        holding.retain(|seen| seen.is(eviction.target));
        let mut leases = Vec::new();
        for seen in holding {
            let is_held = seen.closed_for().is_none();
            // Nobody is there to be asked, or to be told.
            if !is_held && (eviction.ask || eviction.target != Target::All) {
                continue;
            }
            if self.take_away(&seen, eviction, written).await? && is_held {
                leases.push(seen.held());
            }
        }
        Ok(Evicted::new(leases))
    }

    /// Asks the holder to leave; or tells it to, waits a moment, and removes what
    /// is left.
    async fn take_away(
        &self,
        seen: &SeenClaim,
        eviction: &Eviction,
        any: &mut bool,
    ) -> Result<bool> {
        let mut found = false;
        let Some(bytes) = self.word_for(seen, eviction) else { return Ok(false) };
        for entry in &seen.entries {
            let (key, fence) = (Arc::clone(&entry.key), entry.fence.unwrap_or(seen.fence));
            let bytes = bytes.clone();
            let step = TxnStep::Write { key: Arc::clone(&key), fence, bytes };
            let written = self.ensemble.change(vec![step]).await?.is_some();
            found |= written;
            *any |= written;
            if written && !eviction.ask {
                self.wait_for_departure(&key).await?;
                let departure = Departure::Early(None);
                let gone = TxnStep::Remove { key, fence, departure };
                self.ensemble.change(vec![gone]).await?;
            }
        }
        Ok(found)
    }

    /// What is written on the entry. Its metadata stays: others read there how it takes
    /// the name. Who is not one of us has another metadata, and may know one word.
    fn word_for(&self, seen: &SeenClaim, eviction: &Eviction) -> Option<Vec<u8>> {
        if eviction.ask && seen.metadata.mode.is_none() {
            if self.ensemble.asks_strangers() {
                return Some(REVOKE.as_bytes().to_vec());
            }
            seen.id?;
        }
        Some(seen.metadata.marked(EntryMark::of(eviction)).write())
    }

    async fn wait_for_departure(&self, key: &Arc<str>) -> Result<()> {
        let Some(watched) = self.ensemble.watch(Arc::clone(key)).await? else { return Ok(()) };
        tokio::select! {
            _ = watched.change => {}
            () = self.clock.sleep_until(self.clock.now().after(COURTESY)) => {}
        }
        Ok(())
    }
}

/// A mode as people see it: where the store does not tell to which number permits
/// are counted, the metadata may.
fn shown(mode: Mode, metadata: &Metadata) -> Mode {
    match mode {
        Mode::Permits { of: 0, .. } => metadata.mode.unwrap_or(mode),
        mode => mode,
    }
}

/// The entries of one claim together.
fn grouped(seen: Vec<SeenClaim>) -> Vec<SeenClaim> {
    let mut claims: Vec<SeenClaim> = Vec::new();
    for one in seen {
        match claims.iter_mut().find(|claim| claim.id.is_some() && claim.id == one.id) {
            Some(claim) => {
                claim.fence = claim.fence.max(one.fence);
                claim.entries.extend(one.entries);
            }
            None => claims.push(one),
        }
    }
    claims
}
