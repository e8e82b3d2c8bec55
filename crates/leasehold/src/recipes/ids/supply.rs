//! The supply: fills the stock from the engine, ahead of need.
//!
//! One task on home for each generator. It sleeps until the stock is low, so an
//! idle generator costs nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::pace::Pace;
use super::stock::Stock;
use crate::clock::Clock;
use crate::core::Core;
use crate::engine::{Expect, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// The pause after a fill that failed, doubled each time.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Which ids a record stands for: number `n` is the id `n * stride + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) stride: u64,
    pub(super) offset: u64,
    /// The first and the last number that may be used.
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Scale {
    const fn id(&self, number: u64) -> u64 {
        number * self.stride + self.offset
    }

    const fn number(&self, id: u64) -> u64 {
        (id - self.offset) / self.stride
    }
}

/// What one generator fetches, and from where.
#[derive(Debug)]
pub(super) struct Supply {
    /// Not the client: whose last handle goes must not end it on home.
    core: Arc<Core>,
    name: Name,
    scale: Scale,
    pace: Pace,
    stock: Arc<Stock>,
    /// Ids a second, as bits, for those who ask.
    rate: Arc<AtomicU64>,
    /// The largest number that was ever ours.
    seen: u64,
    fetched: u64,
}

impl Supply {
    pub(super) fn new(
        core: &Arc<Core>,
        name: Name,
        scale: Scale,
        pace: Pace,
        stock: Arc<Stock>,
        rate: Arc<AtomicU64>,
    ) -> Self {
        Self { core: Arc::clone(core), name, scale, pace, stock, rate, seen: 0, fetched: 0 }
    }

    /// Fills until the generator has gone.
    pub(super) async fn run(mut self) {
        while self.stock.called().await {
            let mut pause = PAUSE;
            while let Err(error) = self.fill().await {
                self.core.observer.ids_not_filled(&self.name, &error);
                self.stock.fail(error.with("record", &self.name));
                if self.core.is_closed() {
                    return;
                }
                Clock::System.sleep_until(Clock::System.now().after(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Fetches what the pace of use calls for.
    pub(super) async fn fill(&mut self) -> Result<()> {
        let left = self.stock.left();
        self.pace.observe(self.core.clock.now(), self.fetched.saturating_sub(left));
        self.rate.store(self.pace.rate().to_bits(), Ordering::Relaxed);
        let Some(numbers) = self.fetch(self.pace.want(left)).await? else {
            self.stock.end(used_up(&self.name, &self.scale));
            return Ok(());
        };
        self.fetched += numbers.end - numbers.start;
        let ids = self.scale.id(numbers.start)..self.scale.id(numbers.end);
        self.stock.push(ids, self.pace.low());
        Ok(())
    }

    /// So many numbers above all that were ours before; fewer near the last,
    /// none above it.
    async fn fetch(&mut self, count: u64) -> Result<Option<Range<u64>>> {
        let least = self.scale.first.max(self.seen + 1);
        let mut amount = count;
        loop {
            let top = self.add(amount).await?;
            if amount == count && top.saturating_sub(amount) < self.seen {
                self.core.observer.ids_went_back(&self.name, self.seen, top - amount);
            }
            // All of it is ours; what is below was handed out before, or is
            // not wanted.
            if top >= least {
                self.seen = top;
                let start = least.max(top - count.min(top) + 1);
                let numbers = start..(top + 1).min(self.scale.last + 1);
                return Ok(Some(numbers).filter(|numbers| !numbers.is_empty()));
            }
            // As many above that. What is added covers the count, so nobody else
            // has a part in it.
            amount = (least + count - 1 - top).max(count);
        }
    }

    /// Moves the record up by so many; where it is then.
    async fn add(&self, amount: u64) -> Result<u64> {
        let amount = i64::try_from(amount).map_err(|_| used_up(&self.name, &self.scale))?;
        let top = self.core.record_store()?.add(self.name.clone(), amount).await?;
        u64::try_from(top).map_err(|_| below_zero(&self.name))
    }
}

fn used_up(name: &Name, scale: &Scale) -> Error {
    let text = format!("the ids are used up: the largest allowed is {}", scale.id(scale.last));
    Error::invalid(text + "; allow larger ones (max), or use another tag").with("record", name)
}

fn below_zero(name: &Name) -> Error {
    let text = "the record of the ids is below zero: look who else writes it";
    Error::new(ErrorKind::Unexpected, text).with("record", name)
}

/// Gives back what was not used, if nobody has taken since.
pub(super) async fn give_back(
    core: &Core,
    name: Name,
    scale: Scale,
    ids: Range<u64>,
) -> Result<()> {
    let Some(records) = core.engine.records() else { return Ok(()) };
    let (first, top) = (scale.number(ids.start), scale.number(ids.end) - 1);
    let Some(found) = records.load(name.clone()).await? else { return Ok(()) };
    if found.value != top.to_string().into_bytes() {
        return Ok(());
    }
    let less = Store::put(name, (first - 1).to_string().into_bytes());
    // A lost race is no error: the gap stays.
    records.store(less.expecting(Expect::Version(found.version))).await.map(drop)
}
