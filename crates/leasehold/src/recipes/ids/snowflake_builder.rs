//! The builder of Snowflake ids: what can be chosen, and the claim of worker
//! numbers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::layout::Layout;
use super::snowflake::{SnowflakeIds, WorkerLease};
use super::tenure::{Renewer, Tenure, end_with};
use super::ticks::Ticks;
use super::worker::{Mark, Post, WorkerClaim};
use crate::clock::wall::WallClock;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;

/// How far the clock may go back.
const BUDGET: Duration = Duration::from_secs(1);
/// How long a number stays taken after the death of its holder.
const TTL: Duration = Duration::from_secs(60);
/// How many numbers one looks at, at least, before none is free.
const LOOKS: u32 = 64;
const YEAR: u64 = 365 * 24 * 60 * 60 * 1000;
const DAY: u64 = 24 * 60 * 60 * 1000;

/// How old the time in an id may be, for a price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// The clock is read for each id.
    #[default]
    Exact,
    /// The clock as of the kernel's last tick: 1 to 10 milliseconds old, and
    /// cheaper to read.
    Tick,
}

/// How to make Snowflake ids; see [`SnowflakeIds`].
#[must_use = "does nothing until opened"]
#[derive(Clone, Debug)]
pub struct Snowflake {
    source: Source,
    layout: Layout,
    cluster: u32,
    budget: Duration,
    wall: WallClock,
    spin: bool,
    forced: bool,
}

#[derive(Clone, Debug)]
enum Source {
    /// A number that the caller vouches for.
    Fixed(u32),
    Leased {
        locks: Locks,
        tag: String,
        count: u32,
        ttl: Duration,
        key: Option<String>,
    },
}

impl Snowflake {
    pub(super) fn leased(locks: &Locks, tag: &str) -> Self {
        let (locks, tag) = (locks.clone(), tag.to_owned());
        Self::from(Source::Leased { locks, tag, count: 1, ttl: TTL, key: None }, Layout::default())
    }

    /// Ids of a worker number that you vouch for, without any engine. Nobody
    /// notices if two processes have it, and after a restart with the clock
    /// behind ids come again.
    ///
    /// ```
    /// use leasehold::ids::{Layout, Snowflake};
    ///
    /// let ids = Snowflake::fixed(7, Layout::js_safe()).build()?;
    /// let id = ids.try_next()?.expect("not full");
    /// assert!(id < 1 << 53);
    /// assert_eq!(ids.decode(id).worker, 7);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn fixed(worker: u32, layout: Layout) -> Self {
        Self::from(Source::Fixed(worker), layout)
    }

    fn from(source: Source, layout: Layout) -> Self {
        Self {
            source,
            layout,
            cluster: 0,
            budget: BUDGET,
            wall: WallClock::System,
            spin: false,
            forced: false,
        }
    }

    /// How the bits are shared out: 41/10/12 unless set.
    pub const fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The number of this cluster, if the [layout](Layout::clusters) has one.
    pub const fn cluster(mut self, cluster: u32) -> Self {
        self.cluster = cluster;
        self
    }

    /// Takes so many worker numbers: as many times the ids of a millisecond.
    pub const fn workers(mut self, many: u32) -> Self {
        if let Source::Leased { count, .. } = &mut self.source {
            *count = many;
        }
        self
    }

    /// How long a worker number stays taken after the death of its holder, and
    /// so how long ids can be made while the engine is away (half of it at
    /// least): 60 s unless set.
    pub const fn ttl(mut self, time: Duration) -> Self {
        if let Source::Leased { ttl, .. } = &mut self.source {
            *ttl = time;
        }
        self
    }

    /// Looks for a free number in an order that depends on `key`: whoever opens
    /// with the same key again gets the same number, if it is free. The name of
    /// a pod, for example.
    pub fn sticky(mut self, name: impl Into<String>) -> Self {
        if let Source::Leased { key, .. } = &mut self.source {
            *key = Some(name.into());
        }
        self
    }

    /// How far the clock may go back: 1 s unless set. Until it has caught up,
    /// time stands still in the ids.
    pub const fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How old the time in an id may be.
    pub fn freshness(mut self, freshness: Freshness) -> Self {
        self.wall = match freshness {
            Freshness::Exact => WallClock::System,
            Freshness::Tick => WallClock::Coarse,
        };
        self
    }

    /// Another wall clock, for tests.
    pub fn clock(mut self, clock: impl Into<WallClock>) -> Self {
        self.wall = clock.into();
        self
    }

    /// Lets blocking callers burn their core instead of sleeping while a
    /// millisecond is full.
    pub const fn spin(mut self) -> Self {
        self.spin = true;
        self
    }

    /// Allows a layout whose time ends within five years.
    pub const fn force(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Starts a generator with a [fixed](Snowflake::fixed) worker number.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad layout or number, for a layout that ends within five
    /// years, or if the number is to be leased: `open` does that.
    pub fn build(self) -> Result<SnowflakeIds> {
        let Source::Fixed(worker) = self.source else {
            return Err(Error::invalid("a worker number is leased by open(), not by build()"));
        };
        self.check()?;
        if worker >= self.layout.workers() {
            let text = format!("the layout {} has workers below", self.layout);
            return Err(Error::invalid(format!("{text} {}, not {worker}", self.layout.workers())));
        }
        let ticks = self.ticks(1);
        ticks.set_mark(ticks.first(self.layout.millis()));
        Ok(self.generator(&[worker], Arc::new(ticks), None))
    }

    /// Leases worker numbers and starts a generator.
    ///
    /// # Errors
    ///
    /// `Invalid` for a bad layout or tag, or a layout that ends within five
    /// years; `Unsupported` if the engine keeps no records; `Unavailable` if no
    /// number is free; the engine's error if it cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves nothing behind but marks.
    pub async fn open(self) -> Result<SnowflakeIds> {
        let Source::Leased { locks, tag, count, ttl, key } = &self.source else {
            return self.build();
        };
        self.check()?;
        let budget = self.budget.as_millis() as u64;
        let post = Post { locks: locks.clone(), tag: tag.clone(), ttl: *ttl, budget };
        post.locks.record_store()?;
        let mut posts = self.claim(&post, *count, key.as_deref()).await?;
        posts.sort_by_key(|held| held.number);
        self.warn(&post.locks, &posts[0]);
        Ok(self.begin(&post.locks, posts))
    }

    async fn claim(&self, post: &Post, count: u32, key: Option<&str>) -> Result<Vec<HeldWorker>> {
        let mut held = Vec::new();
        let mut ahead = 0;
        let machines = self.layout.machines();
        for machine in probes(machines, key, rounds(machines)) {
            if held.len() == count as usize {
                break;
            }
            let number = self.layout.worker(self.cluster, machine);
            match post.claim(number, self.wall.millis()).await? {
                WorkerClaim::Ours(guard, mark, before) => {
                    held.push(HeldWorker { number, guard, mark, before })
                }
                WorkerClaim::Busy => {}
                WorkerClaim::Ahead(by) => ahead = by.max(ahead),
            }
        }
        if held.len() == count as usize && count > 0 { Ok(held) } else { Err(self.none(ahead)) }
    }

    fn none(&self, ahead: u64) -> Error {
        let all = self.layout.machines();
        let text = if ahead > 0 {
            let behind = Duration::from_millis(ahead);
            format!(
                "no worker number of {all} is left whose ids the clock has caught up with: it \
                     is up to {behind:?} behind; set it right, or wait"
            )
        } else {
            format!(
                "not enough worker numbers are free, of {all}: use a layout with more, or a \
                     shorter ttl if processes come and go"
            )
        };
        Error::new(ErrorKind::Unavailable, text)
    }

    fn begin(&self, locks: &Locks, posts: Vec<HeldWorker>) -> SnowflakeIds {
        let ticks = Arc::new(self.ticks(posts.len() as u64));
        let before = posts.iter().map(|held| held.before).max().unwrap_or_default();
        ticks.start_above(before.saturating_sub(self.layout.since()));
        let tenure = Arc::new(Tenure::new(Arc::clone(&ticks)));
        let numbers: Vec<u32> = posts.iter().map(|held| held.number).collect();
        let (guards, marks): (Vec<Guard>, Vec<Mark>) =
            posts.into_iter().map(|held| (held.guard, held.mark)).unzip();
        let locks = locks.routed(guards[0].name().as_str()).clone();
        let until = marks.iter().map(Mark::until).min().unwrap_or_default();
        let marks = Arc::new(tokio::sync::Mutex::new(marks));
        let renewer = Renewer {
            core: Arc::clone(locks.core()),
            tenure: Arc::clone(&tenure),
            holds: guards.iter().map(Guard::known).collect(),
            marks: Arc::clone(&marks),
            wall: self.wall.clone(),
            layout: self.layout,
        };
        renewer.begin(until);
        locks.spawn(renewer.run());
        for guard in &guards {
            locks.spawn(end_with(guard.known(), Arc::clone(&tenure)));
        }
        let lease = WorkerLease { tenure, marks, guards: Mutex::new(guards), locks };
        self.generator(&numbers, ticks, Some(lease))
    }

    fn ticks(&self, workers: u64) -> Ticks {
        Ticks::new(workers * u64::from(self.layout.per_millisecond()), self.budget)
    }

    fn generator(
        &self,
        workers: &[u32],
        ticks: Arc<Ticks>,
        lease: Option<WorkerLease>,
    ) -> SnowflakeIds {
        SnowflakeIds::new(workers, self.layout, ticks, self.wall.clone(), self.spin, lease)
    }

    fn check(&self) -> Result<()> {
        self.layout.check()?;
        if !self.layout.has_cluster(self.cluster) {
            let text = format!("the layout {} has no cluster {}", self.layout, self.cluster);
            return Err(Error::invalid(text + "; give it bits (Layout::clusters)"));
        }
        let now = self.wall.millis();
        if now < self.layout.since() {
            return Err(Error::invalid("the epoch is in the future: set the clock, or the epoch"));
        }
        if self.left() < 5 * YEAR && !self.forced {
            let text = format!("the time of the layout {} ends in", self.layout);
            let days = self.left() / DAY;
            return Err(Error::invalid(format!(
                "{text} {days} days, less than five years: use a later epoch or more bits of time, \
                 or force() it"
            )));
        }
        Ok(())
    }

    /// How many milliseconds of time are left.
    fn left(&self) -> u64 {
        let end = self.layout.since().saturating_add(self.layout.millis());
        end.saturating_sub(self.wall.millis())
    }

    fn warn(&self, locks: &Locks, held: &HeldWorker) {
        if self.left() < YEAR {
            locks.core().observer.ids_end_soon(held.guard.name(), self.left() / DAY);
        }
    }
}

/// A worker number that is ours.
struct HeldWorker {
    number: u32,
    guard: Guard,
    mark: Mark,
    /// Up to here ids were made before.
    before: u64,
}

/// How often one walks past all numbers before none is free: those that come and
/// go can be missed by a walker, each time, the more easily the fewer there are.
fn rounds(count: u32) -> u32 {
    if count == 1 { 1 } else { (LOOKS / count).max(2) }
}

/// All numbers below `count`, a power of two, in an order of their own, so many
/// times.
fn probes(count: u32, key: Option<&str>, rounds: u32) -> impl Iterator<Item = u32> {
    let seed = key.map_or_else(
        || fastrand::u64(..),
        |key| {
            // FNV-1a: the same on every host and in every version.
            key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        },
    );
    let (start, step) = ((seed >> 32) as u32, (seed as u32) | 1);
    (0..count * rounds).map(move |n| start.wrapping_add(n.wrapping_mul(step)) & (count - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_visit_every_number_once_and_a_key_always_in_the_same_order() {
        let mut all: Vec<u32> = probes(1024, Some("pod-3"), 1).collect();
        assert_eq!(all, probes(1024, Some("pod-3"), 1).collect::<Vec<_>>());
        assert_ne!(all, probes(1024, Some("pod-4"), 1).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..1024).collect::<Vec<_>>());
        assert_eq!(probes(1, None, 2).collect::<Vec<_>>(), [0, 0]);
        // A single number is free or not; of few, one can be missed again and again.
        assert_eq!([1, 2, 4, 64, 1024].map(rounds), [1, 32, 16, 2, 2]);
    }

    #[test]
    fn a_layout_that_ends_soon_is_refused_unless_forced() {
        let soon = Layout::new(32, 10, 12);
        let error = Snowflake::fixed(0, soon).build().unwrap_err().to_string();
        assert!(error.contains("five years"), "{error}");
        let late = Layout::new(30, 10, 12).epoch(WallClock::System.millis() - 1_000);
        let ids = Snowflake::fixed(0, late).force().build().unwrap();
        assert!(ids.try_next().unwrap().is_some());
    }
}
