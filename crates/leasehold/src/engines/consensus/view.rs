//! What operators see, and how they take a lease away.

use std::sync::Arc;
use std::time::Duration;

use super::client::ConsensusClient;
use super::ensemble::{Departure, Ensemble, Look, QueueEntry, TxnStep};
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

/// How many entries are looked at in one go.
const LOOKS: usize = 1000;

/// One claim as its entries show it.
#[derive(Clone, Debug)]
struct SeenClaim {
    entries: Vec<QueueEntry>,
    id: Option<LeaseId>,
    metadata: Metadata,
    mode: Mode,
    fence: u64,
}

/// Who holds a name, and who waits for it.
#[derive(Clone, Debug, Default)]
struct SeenName {
    holding: Vec<SeenClaim>,
    waiting: Vec<SeenClaim>,
}

impl SeenName {
    fn in_queue(mut holding: Vec<SeenClaim>, front: usize) -> Self {
        let waiting = holding.split_off(front.min(holding.len()));
        Self { holding, waiting }
    }

    fn with_permits(permits: Vec<SeenClaim>, mut waiting: Vec<SeenClaim>) -> Self {
        let mut holding = grouped(permits);
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
        Self { holding, waiting }
    }

    fn status(self, name: Name) -> Status {
        let mut status = Status::new(name);
        status.closed_for = self.holding.iter().filter_map(SeenClaim::closed_for).max();
        let held = self.holding.iter().filter(|seen| seen.closed_for().is_none());
        status.holders = held.map(SeenClaim::held).collect();
        status.waiters = self.waiting.iter().map(SeenClaim::queued).collect();
        status
    }
}

impl SeenClaim {
    fn new((entry, (metadata, fence)): (QueueEntry, (Metadata, u64))) -> Self {
        let (id, mode) = (entry.id, shown(entry.mode, &metadata));
        Self { entries: vec![entry], id, metadata, mode, fence }
    }

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
        let (space, prefix) = match select {
            Selector::Name(name) => return Ok(Listing::new(self.in_use(vec![name]).await?, false)),
            Selector::Prefix(space, prefix) => (space, prefix),
        };
        let mut after = page.after;
        loop {
            let asked = self.ensemble.names(space.clone(), Arc::clone(&prefix), after, page.size);
            let (names, more) = asked.await?;
            after = names.last().cloned();
            let shown = self.in_use(names).await?;
            // Nobody could go on behind a page of names that nobody uses any more.
            if !shown.is_empty() || !more || after.is_none() {
                return Ok(Listing::new(shown, more));
            }
        }
    }

    /// Those of the names that anybody uses.
    async fn in_use(&self, names: Vec<Name>) -> Result<Vec<Status>> {
        let seen = self.seen(&names).await?;
        let statuses = names.into_iter().zip(seen).map(|(name, seen)| seen.status(name));
        Ok(statuses.filter(Status::is_busy).collect())
    }

    /// Who holds each of these names and who waits for it.
    async fn seen(&self, names: &[Name]) -> Result<Vec<SeenName>> {
        let lines = self.ensemble.lines(names.to_vec()).await?;
        let all = lines.iter().flat_map(|it| it.queue.iter().chain(&it.permits).chain(&it.door));
        let mut seen = self.look_closely(all.cloned().collect()).await?.into_iter();
        let mut next = |part: &[QueueEntry]| seen.by_ref().take(part.len()).flatten().collect();
        let names = lines.iter().map(|it| {
            let (queue, permits, door) = (next(&it.queue), next(&it.permits), next(&it.door));
            if it.queue.is_empty() {
                SeenName::with_permits(permits, door)
            } else {
                SeenName::in_queue(queue, holders(&it.queue).len())
            }
        });
        Ok(names.collect())
    }

    /// Entries with what they say about themselves, which a list may have told; nothing
    /// of those that have gone meanwhile.
    async fn look_closely(&self, entries: Vec<QueueEntry>) -> Result<Vec<Option<SeenClaim>>> {
        let unknown = entries.iter().filter(|entry| told(entry).is_none());
        let keys: Vec<_> = unknown.map(|entry| Arc::clone(&entry.key)).collect();
        let mut looks = Vec::with_capacity(keys.len());
        for some in keys.chunks(LOOKS) {
            looks.extend(self.ensemble.look(some.to_vec()).await?);
        }
        let mut looks = looks.into_iter();
        let mut seen = |entry| told(&entry).or_else(|| looks.next()?).map(|it| (entry, it));
        let seen = entries.into_iter().map(|entry| Some(SeenClaim::new(seen(entry)?)));
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
        let names = std::slice::from_ref(&eviction.name);
        let seen = self.seen(names).await?.into_iter().next();
        let mut holding = seen.unwrap_or_default().holding;
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
    /// the name. Who is not one of us has another metadata, and may know one word; what
    /// a candidate proposes is its own.
    fn word_for(&self, seen: &SeenClaim, eviction: &Eviction) -> Option<Vec<u8>> {
        if eviction.ask && seen.metadata.mode.is_none() {
            if self.ensemble.asks_strangers() {
                return Some(REVOKE.as_bytes().to_vec());
            }
            if self.ensemble.profile().candidates_in_entries {
                return None;
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

/// What a list has told of an entry.
fn told(entry: &QueueEntry) -> Look {
    entry.metadata.clone().zip(entry.fence)
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
