//! The stock: ids at hand, drawn with one `fetch_add` and no lock.
//!
//! Ids come from one counter that only rises. Two numbers beside it say which
//! of the drawn ones are ours: those from `floor` on and below `mark`. Whoever
//! draws another one looks under the lock: there may be a range to go on with,
//! it may be time to call for more, or there is nothing.
//!
//! A range is left only when the counter has passed its end, and the counter is
//! moved before the gate is. So nobody can take an id between two ranges for
//! its own, and an id that was drawn early and looked at late is dropped at
//! worst: a gap, never a duplicate. Ids that were drawn beyond the end are kept
//! until it is known whether they are ours, and then go first.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Where the counter is put when it is over: above every id.
const CLOSED: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct Stock {
    next: CacheLine<AtomicU64>,
    gate: CacheLine<StockGate>,
    chain: Mutex<Chain>,
    /// Wakes those who wait for ids.
    filled: Notify,
    /// Wakes the supply.
    called: Notify,
}

/// Cache lines of its own, in pairs as they are fetched: the counter is written
/// all the time, the gate hardly ever.
#[derive(Debug)]
#[repr(align(128))]
struct CacheLine<T>(T);

#[derive(Debug)]
struct StockGate {
    floor: AtomicU64,
    /// Zero if there is nothing to draw.
    mark: AtomicU64,
    stride: u64,
}

/// What is under the lock: the ranges.
#[derive(Debug, Default)]
struct Chain {
    current: Range<u64>,
    later: VecDeque<Range<u64>>,
    /// What was drawn and found beyond the end; the gate stays closed until
    /// it is used or known not to be ours.
    drawn: BTreeSet<u64>,
    /// With so many ids left it is time to call for more.
    low: u64,
    /// Whether that was done.
    called: bool,
    failures: u64,
    failure: Option<Error>,
    /// Why there will be no more.
    end: Option<Error>,
}

impl Stock {
    pub(super) fn new(stride: u64) -> Self {
        let gate = StockGate { floor: AtomicU64::new(0), mark: AtomicU64::new(0), stride };
        Self {
            next: CacheLine(AtomicU64::new(0)),
            gate: CacheLine(gate),
            chain: Mutex::default(),
            filled: Notify::new(),
            called: Notify::new(),
        }
    }

    /// The next id, if there is one at hand.
    #[inline]
    pub(super) fn draw(&self) -> Result<Option<u64>> {
        let gate = &self.gate.0;
        // In this order: a floor may be newer than the mark, never older.
        let mark = gate.mark.load(Ordering::Acquire);
        let floor = gate.floor.load(Ordering::Relaxed);
        if mark == 0 {
            return self.look(None);
        }
        let id = self.next.0.fetch_add(gate.stride, Ordering::Relaxed);
        if id >= floor && id < mark { Ok(Some(id)) } else { self.look(Some(id)) }
    }

    /// Up to `most` ids that lie together, if there is one at hand.
    pub(super) fn take(&self, most: u64) -> Result<Option<Range<u64>>> {
        let gate = &self.gate.0;
        let wanted = most.saturating_mul(gate.stride);
        loop {
            let mark = gate.mark.load(Ordering::Acquire);
            let floor = gate.floor.load(Ordering::Relaxed);
            let start = self.next.0.load(Ordering::Relaxed);
            if start < floor || start >= mark {
                let mut chain = self.chain();
                if !self.go_on(&mut chain)? {
                    return Ok(None);
                }
                match chain.drawn_before() {
                    Some(id) => return Ok(Some(id..id + gate.stride)),
                    None => continue,
                }
            }
            let end = start.saturating_add(wanted).min(mark);
            let order = Ordering::Relaxed;
            if self.next.0.compare_exchange_weak(start, end, order, order).is_ok() {
                return Ok(Some(start..end));
            }
        }
    }

    /// What to do with an id that is not below the mark, or with none.
    #[cold]
    fn look(&self, drawn: Option<u64>) -> Result<Option<u64>> {
        let mut chain = self.chain();
        let perhaps = chain.current.start..CLOSED;
        chain.drawn.extend(drawn.filter(|id| perhaps.contains(id)));
        while self.go_on(&mut chain)? {
            if let Some(id) = chain.drawn_before() {
                self.check_level(&mut chain, id);
                return Ok(Some(id));
            }
            let id = self.next.0.fetch_add(self.gate.0.stride, Ordering::Relaxed);
            chain.drawn.insert(id);
        }
        Ok(None)
    }

    /// Goes on to where ids are; false if there are none.
    fn go_on(&self, chain: &mut Chain) -> Result<bool> {
        if chain.drawn.first().is_some_and(|id| *id < chain.current.end) {
            return Ok(true);
        }
        let next = self.next.0.load(Ordering::Relaxed);
        if next < chain.current.end {
            self.check_level(chain, next);
            return Ok(true);
        }
        if let Some(range) = chain.later.pop_front() {
            chain.drawn.retain(|id| *id >= range.start);
            self.next.0.fetch_max(range.start, Ordering::Relaxed);
            chain.current = range;
            self.open(chain);
            return Ok(true);
        }
        self.gate.0.mark.store(0, Ordering::Release);
        if let Some(end) = &chain.end {
            return Err(end.clone());
        }
        self.call(chain);
        Ok(false)
    }

    fn check_level(&self, chain: &mut Chain, next: u64) {
        if chain.left(next, self.gate.0.stride) <= chain.low {
            self.call(chain);
        }
        self.open(chain);
    }

    fn call(&self, chain: &mut Chain) {
        if !std::mem::replace(&mut chain.called, true) {
            self.called.notify_one();
        }
    }

    /// Sets the gate to the current range; up to where someone has to look.
    fn open(&self, chain: &Chain) {
        // What was drawn before goes first, so that ids rise.
        if !chain.drawn.is_empty() {
            return;
        }
        let gate = &self.gate.0;
        let kept =
            if chain.called { 0 } else { chain.low.saturating_sub(chain.later(gate.stride)) };
        let mark = chain.current.end.saturating_sub(kept.saturating_mul(gate.stride));
        gate.floor.store(chain.current.start, Ordering::Relaxed);
        gate.mark.store(mark.max(chain.current.start), Ordering::Release);
    }

    /// Adds a range above all before; `low` says when to call again.
    pub(super) fn push(&self, range: Range<u64>, low: u64) {
        let mut chain = self.chain();
        if chain.is_over() {
            return;
        }
        chain.low = low;
        chain.called = false;
        let joins = chain.last().end == range.start;
        if joins {
            chain.last().end = range.end;
        } else {
            chain.later.push_back(range);
        }
        if self.next.0.load(Ordering::Relaxed) < chain.current.end {
            self.open(&chain);
        }
        drop(chain);
        self.filled.notify_waiters();
    }

    /// A fill has failed: those who wait for it are told.
    pub(super) fn fail(&self, error: Error) {
        let mut chain = self.chain();
        chain.failures += 1;
        chain.failure = Some(error);
        drop(chain);
        self.filled.notify_waiters();
    }

    /// There will be no more than what is at hand.
    pub(super) fn end(&self, why: Error) {
        self.chain().end.get_or_insert(why);
        self.filled.notify_waiters();
    }

    /// Nothing is drawn any more; the unused end that lies together, once.
    pub(super) fn close(&self, why: Error) -> Option<Range<u64>> {
        let mut chain = self.chain();
        let next = self.next.0.swap(CLOSED, Ordering::Relaxed);
        if next >= CLOSED {
            return None;
        }
        self.gate.0.mark.store(0, Ordering::Release);
        chain.end = Some(why);
        // While something was kept, nothing above it was handed out.
        let next = chain.drawn.pop_first().unwrap_or(next);
        let current = std::mem::take(&mut chain.current);
        let unused = next.max(current.start)..current.end;
        let tail = std::mem::take(&mut chain.later).pop_back().unwrap_or(unused);
        drop(chain);
        self.called.notify_one();
        self.filled.notify_waiters();
        Some(tail).filter(|tail| !tail.is_empty())
    }

    /// Resolves when more is wanted; false once it is over.
    pub(super) async fn called(&self) -> bool {
        self.called.notified().await;
        !self.chain().is_over()
    }

    /// How many ids are at hand.
    pub(super) fn left(&self) -> u64 {
        let chain = self.chain();
        chain.left(self.next.0.load(Ordering::Relaxed), self.gate.0.stride)
    }

    /// Waits for what `take` takes. It fails with a fill that fails meanwhile.
    pub(super) async fn wait<T>(&self, take: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        let failures = self.chain().failures;
        loop {
            let mut filled = pin!(self.filled.notified());
            filled.as_mut().enable();
            if let Some(taken) = take(self)? {
                return Ok(taken);
            }
            if let Some(error) = self.chain().failed_since(failures) {
                return Err(error);
            }
            filled.await;
        }
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chain {
    const fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn last(&mut self) -> &mut Range<u64> {
        self.later.back_mut().unwrap_or(&mut self.current)
    }

    /// The first of what was drawn before, if it is ours.
    fn drawn_before(&mut self) -> Option<u64> {
        let ours = self.drawn.first().is_some_and(|id| *id < self.current.end);
        if ours { self.drawn.pop_first() } else { None }
    }

    fn later(&self, stride: u64) -> u64 {
        self.later.iter().map(|range| (range.end - range.start) / stride).sum()
    }

    fn left(&self, next: u64, stride: u64) -> u64 {
        let current = self.current.end.saturating_sub(next.max(self.current.start));
        current / stride + self.later(stride)
    }

    fn failed_since(&self, failures: u64) -> Option<Error> {
        self.failure.clone().filter(|_| self.failures != failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(stock: &Stock) -> Vec<u64> {
        std::iter::from_fn(|| stock.draw().unwrap()).collect()
    }

    #[test]
    fn ranges_are_used_in_order_and_what_lies_between_is_not() {
        let stock = Stock::new(1);
        stock.push(1..4, 0);
        stock.push(4..6, 0);
        stock.push(10..12, 0);
        assert_eq!(stock.left(), 7);
        assert_eq!(drain(&stock), [1, 2, 3, 4, 5, 10, 11]);
        stock.push(20..22, 0);
        assert_eq!(drain(&stock), [20, 21]);
    }

    #[test]
    fn an_empty_stock_wastes_no_ids() {
        let stock = Stock::new(1);
        stock.push(1..3, 0);
        assert_eq!(drain(&stock), [1, 2]);
        for _ in 0..10 {
            assert_eq!(stock.draw().unwrap(), None);
        }
        stock.push(3..6, 0);
        assert_eq!(drain(&stock), [3, 4, 5], "one was drawn before, and is not lost");
        stock.push(6..8, 0);
        assert_eq!(stock.take(9).unwrap(), Some(6..7));
        assert_eq!(stock.take(9).unwrap(), Some(7..8));
    }

    #[test]
    fn strides_leave_room_for_other_databases() {
        let stock = Stock::new(3);
        stock.push(4..13, 0);
        assert_eq!(drain(&stock), [4, 7, 10]);
    }

    #[test]
    fn it_calls_once_when_the_level_is_low() {
        let stock = Stock::new(1);
        stock.push(1..11, 4);
        for _ in 0..10 {
            stock.draw().unwrap();
        }
        assert!(stock.chain().called);
        stock.push(11..21, 4);
        assert!(!stock.chain().called, "the call was answered");
    }

    #[test]
    fn a_closed_stock_gives_the_unused_tail_once() {
        let stock = Stock::new(1);
        stock.push(1..11, 0);
        assert_eq!(stock.draw().unwrap(), Some(1));
        assert_eq!(stock.close(Error::invalid("closed")), Some(2..11));
        assert_eq!(stock.close(Error::invalid("closed")), None);
        assert!(stock.draw().is_err());
    }

    #[test]
    fn pieces_lie_together_and_end_with_their_range() {
        let stock = Stock::new(2);
        stock.push(2..8, 1);
        stock.push(20..24, 1);
        assert_eq!(stock.take(2).unwrap(), Some(2..6));
        let rest: Vec<_> = std::iter::from_fn(|| stock.take(100).unwrap()).collect();
        assert_eq!(rest, [6..8, 20..22, 22..24]);
    }

    #[test]
    fn what_was_drawn_into_the_next_range_is_used() {
        let stock = Stock::new(1);
        stock.push(1..3, 0);
        assert_eq!(drain(&stock), [1, 2]);
        stock.chain().drawn.extend([4, 5]);
        stock.next.0.store(6, Ordering::Relaxed);
        stock.push(4..8, 0);
        assert_eq!(drain(&stock), [4, 5, 6, 7]);
    }

    #[test]
    fn threads_never_draw_the_same() {
        let stock = Stock::new(1);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let draw = || scope.spawn(|| drain_until(&stock, 40_000));
            let threads: Vec<_> = (0..4).map(|_| draw()).collect();
            for n in 0..2_000_u64 {
                // Some lie together, some do not.
                let start = n * 100 + n % 3;
                stock.push(start + 1..(n + 1) * 100, 20);
            }
            stock.end(Error::invalid("no more"));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "no duplicate");
        assert!(
            all.iter().all(|id| {
                let n = id / 100;
                id % 100 > n % 3
            }),
            "none between ranges"
        );
    }

    #[test]
    fn a_crowd_on_short_ranges_leaves_no_gap() {
        let stock = Stock::new(1);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let draw = || scope.spawn(|| drain_until(&stock, usize::MAX));
            let threads: Vec<_> = (0..4).map(|_| draw()).collect();
            for n in 0..20_000_u64 {
                stock.push(1 + n * 3..1 + (n + 1) * 3, 1);
                if n % 5 == 0 {
                    std::thread::yield_now();
                }
            }
            stock.end(Error::invalid("no more"));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=60_000), "every id once");
    }

    fn drain_until(stock: &Stock, most: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < most {
            match stock.draw() {
                Ok(Some(id)) => ids.push(id),
                Ok(None) => std::thread::yield_now(),
                Err(_) => break,
            }
        }
        assert!(ids.is_sorted());
        ids
    }
}
