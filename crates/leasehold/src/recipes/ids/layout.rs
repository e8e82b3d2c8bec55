//! The layout of a Snowflake id: how its 63 bits are shared out.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};

/// 2024-01-01T00:00:00Z.
const EPOCH: u64 = 1_704_067_200_000;
/// The most bits of an id: it stays positive where numbers have a sign.
const BITS: u32 = 63;

/// How the bits of an id are shared out: milliseconds since an epoch on top,
/// then cluster and machine, which together are the worker, then a sequence.
///
/// ```
/// use leasehold::ids::Layout;
///
/// let layout = Layout::default();
/// assert_eq!(layout, Layout::new(41, 10, 12));
/// assert_eq!(layout.workers(), 1024);
/// assert_eq!(layout.per_millisecond(), 4096);
/// assert!(Layout::new(50, 10, 12).check().is_err(), "too many bits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    time: u32,
    worker: u32,
    /// The upper part of the worker's bits.
    cluster: u32,
    sequence: u32,
    epoch: u64,
}

impl Default for Layout {
    /// 41 bits of time, 10 of worker, 12 of sequence.
    fn default() -> Self {
        Self::new(41, 10, 12)
    }
}

impl Layout {
    /// So many bits each, 63 at most, with the epoch 2024-01-01.
    ///
    /// What does not fit is an error when a generator is opened, or of
    /// [`Layout::check`].
    #[must_use]
    pub const fn new(time: u32, worker: u32, sequence: u32) -> Self {
        Self { time, worker, cluster: 0, sequence, epoch: EPOCH }
    }

    /// 53 bits, which JavaScript reads exactly: 41 of time, 5 of worker, 7 of
    /// sequence.
    #[must_use]
    pub const fn js_safe() -> Self {
        Self::new(41, 5, 7)
    }

    /// The same layout, where so many of the worker's bits are the cluster's.
    #[must_use]
    pub const fn clusters(mut self, bits: u32) -> Self {
        self.cluster = bits;
        self
    }

    /// The same layout, with time counted from so many milliseconds after 1970.
    #[must_use]
    pub const fn epoch(mut self, millis: u64) -> Self {
        self.epoch = millis;
        self
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// `Invalid`, with what is wrong.
    pub fn check(&self) -> Result<()> {
        let total = self.time + self.worker + self.sequence;
        let fault = if total > BITS {
            format!("{total} bits are more than the {BITS} of an id")
        } else if self.time == 0 || self.sequence == 0 || self.sequence > 22 || self.worker > 22 {
            "time and sequence need a bit, worker and sequence have 22 at most".into()
        } else if self.cluster > self.worker {
            "the cluster's bits are part of the worker's".into()
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("invalid layout {self}: {fault}")))
    }

    /// How many workers there can be, over all clusters.
    #[must_use]
    pub const fn workers(&self) -> u32 {
        1 << self.worker
    }

    /// How many workers one cluster can have.
    #[must_use]
    pub const fn machines(&self) -> u32 {
        1 << (self.worker - self.cluster)
    }

    /// How many ids one worker can make in a millisecond.
    #[must_use]
    pub const fn per_millisecond(&self) -> u32 {
        1 << self.sequence
    }

    /// The moment at which the bits of time are used up.
    #[must_use]
    pub fn ends(&self) -> SystemTime {
        let end = self.epoch.saturating_add(self.millis());
        SystemTime::UNIX_EPOCH + Duration::from_millis(end)
    }

    /// What an id was made of.
    #[must_use]
    pub fn decode(&self, id: u64) -> Parts {
        let millis = (id >> (self.worker + self.sequence)).saturating_add(self.epoch);
        let worker = (id >> self.sequence) as u32 & (self.workers() - 1);
        Parts {
            millis,
            worker,
            cluster: worker >> (self.worker - self.cluster),
            machine: worker & (self.machines() - 1),
            sequence: id as u32 & (self.per_millisecond() - 1),
        }
    }

    /// How many milliseconds its time can count.
    pub(super) const fn millis(&self) -> u64 {
        1 << self.time
    }

    pub(super) const fn since(&self) -> u64 {
        self.epoch
    }

    pub(super) const fn sequence_bits(&self) -> u32 {
        self.sequence
    }

    /// Where the time begins.
    pub(super) const fn time_shift(&self) -> u32 {
        self.worker + self.sequence
    }

    /// The number of a worker of this cluster.
    pub(super) const fn worker(&self, cluster: u32, machine: u32) -> u32 {
        cluster << (self.worker - self.cluster) | machine
    }

    pub(super) const fn has_cluster(&self, cluster: u32) -> bool {
        cluster < 1 << self.cluster
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.time, self.worker, self.sequence)
    }
}

/// What a Snowflake id was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts {
    /// When it was made, in milliseconds since 1970.
    pub millis: u64,
    /// By which worker: cluster and machine together.
    pub worker: u32,
    /// The cluster; 0 if the layout has none.
    pub cluster: u32,
    /// The machine within the cluster.
    pub machine: u32,
    /// Which one within the millisecond.
    pub sequence: u32,
}

impl Parts {
    /// When it was made.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_what_it_was_made_of() {
        let layout = Layout::new(41, 10, 12).clusters(4).epoch(1_000);
        let id = 5 << 22 | u64::from(layout.worker(3, 9)) << 12 | 77;
        let parts = layout.decode(id);
        assert_eq!((parts.millis, parts.cluster, parts.machine), (1_005, 3, 9));
        assert_eq!((parts.worker, parts.sequence), (3 << 6 | 9, 77));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let fault = |layout: Layout| layout.check().unwrap_err().to_string();
        assert!(fault(Layout::new(42, 10, 12)).contains("64 bits"));
        assert!(fault(Layout::new(41, 10, 0)).contains("need a bit"));
        assert!(fault(Layout::new(41, 4, 12).clusters(5)).contains("cluster"));
        for fit in [Layout::default(), Layout::js_safe(), Layout::new(63 - 1, 0, 1)] {
            fit.check().unwrap();
        }
    }

    #[test]
    fn the_js_safe_layout_fits_into_53_bits() {
        let layout = Layout::js_safe();
        let bits = layout.time + layout.worker + layout.sequence;
        assert_eq!(bits, 53);
    }
}
