//! Segment ids: numbers from blocks that the engine hands out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::pace::Pace;
use super::stock::Stock;
use super::supply::{Scale, Supply, give_back};
use crate::error::{Error, Result};
use crate::locks::Locks;
use crate::name::Name;

/// The fewest ids of one fill.
const STEP: u64 = 1_000;
/// The most.
const STEP_MAX: u64 = 100_000_000;
/// How long the engine may be away.
const HORIZON: Duration = Duration::from_secs(60);
/// The largest id there can be: what fits into a signed number.
const MAX: u64 = i64::MAX as u64;

/// How to make segment ids; see [`SegmentIds`].
#[must_use = "does nothing until opened"]
#[derive(Clone, Debug)]
pub struct Segment {
    locks: Locks,
    record: String,
    start: u64,
    max: u64,
    step: u64,
    step_max: u64,
    horizon: Duration,
    offset: u64,
    stride: u64,
}

impl Segment {
    pub(super) fn new(locks: &Locks, tag: &str) -> Self {
        Self {
            locks: locks.clone(),
            record: format!("ids/{tag}"),
            start: 1,
            max: MAX,
            step: STEP,
            step_max: STEP_MAX,
            horizon: HORIZON,
            offset: 0,
            stride: 1,
        }
    }

    /// The smallest id to hand out: 1 unless set. Numbers below it are jumped
    /// over, so it may be raised later.
    pub const fn start(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// The largest id to hand out; 2^63 - 1 unless set. `2^53 - 1` is what
    /// JavaScript can read.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// The fewest ids to fetch at once: 1,000 unless set.
    pub const fn step(mut self, step: u64) -> Self {
        self.step = step;
        self
    }

    /// The most ids to fetch at once: 100 million unless set. Between the two
    /// the step follows the rate of use.
    pub const fn step_max(mut self, most: u64) -> Self {
        self.step_max = most;
        self
    }

    /// How long what is at hand shall last while the engine is away: 60 s
    /// unless set. A crash wastes this much and a quarter more.
    pub const fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// One of several databases that hand out ids of the same kind: each id is
    /// `offset` above a multiple of `stride`. All processes of one database use
    /// the same numbers, and no two databases the same offset.
    pub const fn among(mut self, offset: u64, stride: u64) -> Self {
        self.offset = offset;
        self.stride = stride;
        self
    }

    /// Fetches the first ids.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad tag or option; `Unsupported` if the engine keeps no
    /// records; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped call may leave a gap.
    pub async fn open(self) -> Result<SegmentIds> {
        let locks = self.locks.routed(&self.record).clone();
        let (name, scale) = (locks.name(&self.record)?, self.scale()?);
        locks.record_store()?;
        let pace = Pace::new(self.step, self.step_max, self.horizon, locks.clock().now());
        let (stock, rate) = (Arc::new(Stock::new(scale.stride)), Arc::default());
        let (ours, shared) = (Arc::clone(&stock), Arc::clone(&rate));
        let mut supply = Supply::new(locks.core(), name.clone(), scale, pace, ours, shared);
        let first = async move { supply.fill().await.map(|()| supply) };
        locks.spawn(locks.at_home(|| Box::pin(first)).await?.run());
        Ok(SegmentIds(Arc::new(SegmentGenerator { stock, scale, rate, name, locks })))
    }

    fn scale(&self) -> Result<Scale> {
        let fault = if self.stride == 0 || self.offset >= self.stride {
            "the offset is one of 0 .. stride"
        } else if self.step == 0 || self.step > self.step_max || self.step_max > 1 << 40 {
            "a step is at least 1, step_max no smaller and at most 2^40"
        } else if self.max > MAX || self.start > self.max {
            "start is no larger than max, and max at most 2^63 - 1"
        } else {
            let first = self.start.saturating_sub(self.offset).div_ceil(self.stride).max(1);
            // What does not fit is no number of this scale.
            let last = self.max.saturating_sub(self.offset) / self.stride;
            let last = last.min((MAX - self.offset) / self.stride - 1);
            return Ok(Scale { stride: self.stride, offset: self.offset, first, last });
        };
        Err(Error::invalid(fault).with("record", &self.record))
    }
}

/// Ids that rise by one, from blocks that the engine hands out.
///
/// Blocks are fetched ahead, as many ids as the rate of use calls for, so that
/// [`SegmentIds::next`] is normally ready at once and the engine may be away
/// for the [horizon](Segment::horizon). Callers wait if none is at hand; it is
/// an error only if the engine cannot be reached meanwhile.
///
/// Unique over all processes that use the same tag; strictly rising within one
/// generator. A process that ends without [`SegmentIds::close`] leaves a gap.
/// A copy of a process (`fork`) opens its own. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let orders = locks.ids("orders").segment().start(1_000_000).open().await?;
/// assert_eq!(orders.next().await?, 1_000_000);
/// assert_eq!(orders.batch(3).await?, [1_000_001, 1_000_002, 1_000_003]);
///
/// orders.close().await?;
/// let again = locks.ids("orders").segment().open().await?;
/// assert_eq!(again.next().await?, 1_000_004, "what was unused was given back");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SegmentIds(Arc<SegmentGenerator>);

#[derive(Debug)]
struct SegmentGenerator {
    stock: Arc<Stock>,
    scale: Scale,
    rate: Arc<AtomicU64>,
    name: Name,
    locks: Locks,
}

impl SegmentIds {
    /// The next id.
    ///
    /// # Errors
    ///
    /// The engine's error if none is at hand and it cannot be reached;
    /// `Invalid` once they are used up or closed.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses no id.
    #[inline]
    pub async fn next(&self) -> Result<u64> {
        match self.try_next()? {
            Some(id) => Ok(id),
            None => self.wait().await,
        }
    }

    /// The next id if one is at hand; never waits.
    ///
    /// # Errors
    ///
    /// `Invalid` once they are used up or closed.
    #[inline]
    pub fn try_next(&self) -> Result<Option<u64>> {
        self.0.stock.draw()
    }

    #[cold]
    async fn wait(&self) -> Result<u64> {
        self.0.stock.wait(|_| self.try_next()).await
    }

    /// How far apart two ids are.
    pub(super) fn stride(&self) -> u64 {
        self.0.scale.stride
    }

    /// Up to `most` ids that lie together, if there is one at hand.
    pub(crate) fn take(&self, most: u64) -> Result<Option<Range<u64>>> {
        self.0.stock.take(most)
    }

    /// The same, as soon as there is one.
    pub(crate) async fn take_later(&self, most: u64) -> Result<Range<u64>> {
        self.0.stock.wait(|stock| stock.take(most)).await
    }

    /// So many ids, rising; others may get some in between.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::next`]; what was taken until then is a gap.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves a gap.
    pub async fn batch(&self, count: usize) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let most = (count - ids.len()) as u64;
            let range = match self.take(most)? {
                Some(range) => range,
                None => self.take_later(most).await?,
            };
            self.0.append(&mut ids, range);
        }
        Ok(ids)
    }

    /// How long it can go on without the engine.
    #[must_use]
    pub fn runway(&self) -> Runway {
        let ids = self.0.stock.left();
        let rate = f64::from_bits(self.0.rate.load(Ordering::Relaxed));
        let lasts = Duration::try_from_secs_f64(ids as f64 / rate).unwrap_or(Duration::MAX);
        Runway { ids, lasts }
    }

    /// Ends the generator, for all its clones, and gives back what was not
    /// used if nobody has taken ids since: then there is no gap. Without it the
    /// same is tried when the last clone goes.
    ///
    /// # Errors
    ///
    /// The engine's error if it cannot be reached: there is a gap then.
    ///
    /// # Cancel safety
    ///
    /// The generator is closed even if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        match self.0.shut() {
            Some(rest) => self.0.locks.at_home(|| Box::pin(rest)).await,
            None => Ok(()),
        }
    }
}

impl SegmentGenerator {
    fn append(&self, ids: &mut Vec<u64>, range: Range<u64>) {
        let count = (range.end - range.start) / self.scale.stride;
        ids.extend((0..count).map(|n| range.start + n * self.scale.stride));
    }

    /// Draws no more; what is left to be done.
    fn shut(&self) -> Option<impl Future<Output = Result<()>> + Send + use<>> {
        let why =
            Error::invalid("this generator was closed; open another").with("record", &self.name);
        let unused = self.stock.close(why)?;
        let (core, name, scale) = (Arc::clone(self.locks.core()), self.name.clone(), self.scale);
        Some(async move { give_back(&core, name, scale, unused).await })
    }
}

impl Drop for SegmentGenerator {
    fn drop(&mut self) {
        if let Some(rest) = self.shut() {
            // Nobody is left to hear of a gap.
            self.locks.finish(async move { drop(rest.await) });
        }
    }
}

/// How long a generator can go on without its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runway {
    /// The ids at hand.
    pub ids: u64,
    /// How long they last at the present rate of use.
    pub lasts: Duration,
}
