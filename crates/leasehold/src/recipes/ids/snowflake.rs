//! Snowflake ids: time, worker and sequence in 63 bits.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use super::layout::{Layout, Parts};
use super::tenure::Tenure;
use super::ticks::{Hitch, Ticks};
use super::worker::Mark;
use crate::clock::wall::WallClock;
use crate::clock::{Clock, block_for};
use crate::detached::Detached;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::home::Home;
use crate::locks::Locks;

/// How long to wait when a millisecond is full. Nothing is lost by waiting for
/// more than one: what was missed is made up for.
const REST: Duration = Duration::from_millis(1);

/// Ids of time, worker and sequence, made without a request.
///
/// The worker number is leased from the engine, together with a mark up to
/// which ids may be made; the next holder of the number starts above it. So no
/// id is made twice, whatever clocks and processes do:
///
/// - a lease that is lost stops the generator: `Lost`;
/// - a clock that goes back is bridged within the [budget](super::Snowflake::budget):
///   time stands still in the ids until the clock has caught up;
/// - one that goes back further is refused until then: `Unavailable`.
///
/// Strictly rising within one generator. At most 4,096 in a millisecond for each
/// worker, in the default layout; callers sleep until there are more. A copy of
/// a process (`fork`) opens its own. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let ids = locks.ids("orders").snowflake().open().await?;
/// let (first, second) = (ids.next().await?, ids.next().await?);
/// assert!(first < second);
/// assert_eq!(ids.decode(first).worker, ids.workers()[0]);
/// ids.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SnowflakeIds(Arc<SnowflakeGenerator>);

#[derive(Debug)]
struct SnowflakeGenerator {
    ticks: Arc<Ticks>,
    /// The bits of each worker, in place.
    lanes: Box<[u64]>,
    layout: Layout,
    wall: WallClock,
    spin: bool,
    home: OnceLock<Arc<Home>>,
    lease: Option<WorkerLease>,
}

/// What makes the worker numbers ours.
#[derive(Debug)]
pub(super) struct WorkerLease {
    pub(super) tenure: Arc<Tenure>,
    pub(super) marks: Arc<tokio::sync::Mutex<Vec<Mark>>>,
    // Dropped before the client may end.
    pub(super) guards: Mutex<Vec<Guard>>,
    pub(super) locks: Locks,
}

impl SnowflakeIds {
    pub(super) fn new(
        workers: &[u32],
        layout: Layout,
        ticks: Arc<Ticks>,
        wall: WallClock,
        spin: bool,
        lease: Option<WorkerLease>,
    ) -> Self {
        let bits = layout.sequence_bits();
        let lanes = workers.iter().map(|worker| u64::from(*worker) << bits).collect();
        Self(Arc::new(SnowflakeGenerator {
            ticks,
            lanes,
            layout,
            wall,
            spin,
            home: OnceLock::new(),
            lease,
        }))
    }

    /// The next id; waits while the present millisecond is full.
    ///
    /// # Errors
    ///
    /// `Lost` if a lease was lost: open anew; `Unavailable` if the clock went
    /// back too far, or the engine's error if it is away for too long.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses no id.
    #[inline]
    pub async fn next(&self) -> Result<u64> {
        loop {
            match self.attempt() {
                Ok(id) => return Ok(id),
                Err(hitch) => self.overcome(hitch).await?,
            }
        }
    }

    /// The next id, unless that would mean to wait.
    ///
    /// # Errors
    ///
    /// Those of [`SnowflakeIds::next`].
    #[inline]
    pub fn try_next(&self) -> Result<Option<u64>> {
        match self.attempt() {
            Ok(id) => Ok(Some(id)),
            Err(hitch) => self.try_again(hitch),
        }
    }

    /// So many ids, rising; others may get some in between.
    ///
    /// # Errors
    ///
    /// Those of [`SnowflakeIds::next`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves a gap.
    pub async fn batch(&self, count: usize) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            if let Err(hitch) = self.append(&mut ids, count) {
                self.overcome(hitch).await?;
            }
        }
        Ok(ids)
    }

    /// What an id was made of.
    #[must_use]
    pub fn decode(&self, id: u64) -> Parts {
        self.0.layout.decode(id)
    }

    /// How the bits are shared out.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    /// The worker numbers in its ids.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        self.0.lanes.iter().map(|bits| (bits >> self.0.layout.sequence_bits()) as u32).collect()
    }

    /// The moment at which the bits of time are used up.
    #[must_use]
    pub fn ends(&self) -> SystemTime {
        self.0.layout.ends()
    }

    /// Ends the generator, for all its clones: notes the last id and gives the
    /// worker numbers back, so that the next holder can start at once. Without
    /// it the same is tried when the last clone goes.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached: the numbers are free after
    /// their ttl then.
    ///
    /// # Cancel safety
    ///
    /// The generator is closed even if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        let rest = self.0.shut();
        let Some(lease) = &self.0.lease else { return Ok(()) };
        if let Some(rest) = rest {
            lease.locks.at_home(|| Box::pin(rest)).await?;
        }
        for guard in lease.give_up() {
            guard.release().await?;
        }
        Ok(())
    }

    /// One try.
    #[inline]
    pub(crate) fn attempt(&self) -> Result<u64, Hitch> {
        let inner = &*self.0;
        inner.ticks.take(inner.now()).map(|slot| inner.id(slot))
    }

    /// Adds ids until there are so many.
    pub(crate) fn append(&self, ids: &mut Vec<u64>, count: usize) -> Result<(), Hitch> {
        self.0.append(ids, count)
    }

    #[cold]
    fn try_again(&self, mut hitch: Hitch) -> Result<Option<u64>> {
        loop {
            if hitch == Hitch::Full || !self.0.passes(hitch)? {
                return Ok(None);
            }
            match self.attempt() {
                Ok(id) => return Ok(Some(id)),
                Err(next) => hitch = next,
            }
        }
    }

    #[cold]
    async fn overcome(&self, hitch: Hitch) -> Result<()> {
        if hitch == Hitch::Full {
            return self.rest().await;
        }
        if self.0.passes(hitch)? {
            return Ok(());
        }
        match &self.0.lease {
            Some(lease) => lease.tenure.wait(|| self.0.passes(hitch)).await,
            None => Ok(()),
        }
    }

    /// Blocks until it is worth another try; false if that takes more than a
    /// short sleep.
    pub(crate) fn block(&self, hitch: Hitch) -> Result<bool> {
        match hitch {
            Hitch::Full if self.0.spin => std::hint::spin_loop(),
            Hitch::Full => block_for(REST),
            other => return self.0.passes(other),
        }
        Ok(true)
    }

    async fn rest(&self) -> Result<()> {
        if self.0.home.get().is_none() {
            // Two may find it; one home serves all.
            let _ = self.0.home.set(Home::find()?);
        }
        let Some(home) = self.0.home.get() else { return Ok(()) };
        let until = Clock::System.now().after(REST);
        Detached::new(home.handle().clone(), move |handoff| async move {
            Clock::System.sleep_until(until).await;
            handoff.put(());
        })
        .await;
        Ok(())
    }
}

impl SnowflakeGenerator {
    /// The present millisecond, by the layout.
    #[inline]
    fn now(&self) -> u64 {
        self.wall.millis().saturating_sub(self.layout.since())
    }

    #[inline]
    fn id(&self, slot: u64) -> u64 {
        let bits = self.layout.sequence_bits();
        let place = self.ticks.place(slot);
        let time = self.ticks.millis(slot) << self.layout.time_shift();
        time | self.lanes[(place >> bits) as usize] | place & ((1 << bits) - 1)
    }

    fn lane(&self) -> u64 {
        u64::from(self.layout.per_millisecond())
    }

    fn append(&self, ids: &mut Vec<u64>, count: usize) -> Result<(), Hitch> {
        let now = self.now();
        while ids.len() < count {
            let slots = self.ticks.take_many(now, (count - ids.len()) as u64, self.lane())?;
            // They share time and worker.
            let first = self.id(slots.start);
            ids.extend((0..slots.end - slots.start).map(|n| first + n));
        }
        Ok(())
    }

    /// Whether another try may succeed at once; false to wait.
    #[cold]
    fn passes(&self, hitch: Hitch) -> Result<bool> {
        match hitch {
            Hitch::Full => Ok(false),
            Hitch::Behind(_) => self.check_clock(),
            Hitch::Mark(slot) if slot >= self.ticks.first(self.layout.millis()) => {
                self.lease.as_ref().map_or(Ok(false), |lease| lease.tenure.look(0))?;
                Err(self.used_up(slot))
            }
            Hitch::Mark(slot) => {
                self.lease.as_ref().map_or(Ok(true), |lease| lease.tenure.look(slot))
            }
        }
    }

    /// It may only have been read before another thread's.
    fn check_clock(&self) -> Result<bool> {
        match self.ticks.behind(self.now()) {
            None => Ok(true),
            Some(behind) => {
                let text = format!(
                    "the clock went back: it is {:?} behind the last id, more than the budget; no \
                     id is made until it has caught up",
                    Duration::from_millis(behind)
                );
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    fn used_up(&self, slot: u64) -> Error {
        if slot >= Ticks::CLOSED {
            return Error::invalid("this generator was closed; open another");
        }
        let text = format!("the bits of time of the layout {} are used up", self.layout);
        Error::invalid(text + ": use a later epoch or another layout")
    }

    /// Makes no more; what is left to be done.
    fn shut(&self) -> Option<impl Future<Output = Result<()>> + Send + use<>> {
        let last = self.ticks.close()? + self.layout.since();
        let lease = self.lease.as_ref()?;
        lease.tenure.end(Error::invalid("this generator was closed; open another"));
        let (core, marks) = (Arc::clone(lease.locks.core()), Arc::clone(&lease.marks));
        Some(async move {
            for mark in marks.lock().await.iter_mut() {
                mark.settle(&core, last).await?;
            }
            Ok(())
        })
    }
}

impl WorkerLease {
    fn give_up(&self) -> Vec<Guard> {
        std::mem::take(&mut *self.guards.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for SnowflakeGenerator {
    fn drop(&mut self) {
        if let (Some(rest), Some(lease)) = (self.shut(), &self.lease) {
            // Nobody is left to hear of a failure: the ttl ends it.
            lease.locks.finish(async move { drop(rest.await) });
        }
    }
}
