//! Ticks: which slot comes next. A slot is a millisecond and a place in it.
//!
//! The last slot that was handed out is one number, swapped without a lock.
//! The next one is in the present millisecond, or follows the last one:
//!
//! - The millisecond is full: the caller waits for the next one. Sleep is never
//!   exact, so for a short time after a full millisecond slots follow each
//!   other without a jump to the present, and none is lost to a late waker.
//! - The clock is behind the last slot by no more than the budget: slots follow
//!   the last one, into later milliseconds no faster than time passes.
//! - It is further behind: refused.
//!
//! No slot from the mark on is handed out before someone has looked.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};

/// For so many milliseconds after a full one, slots follow each other.
const CATCH_UP: u64 = 20;

/// Why there is no slot now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hitch {
    /// All of this millisecond are taken: wait for the next.
    Full,
    /// The clock is so many milliseconds behind the last slot.
    Behind(u64),
    /// This slot is not below the mark: look whether that can be moved.
    Mark(u64),
}

#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Ticks {
    last: AtomicU64,
    /// The first slot that must not be handed out; zero for none at all.
    mark: AtomicU64,
    /// The last millisecond that was found full.
    full: AtomicU64,
    /// A slot is a millisecond shifted by these, and a place.
    bits: u32,
    /// How many places a millisecond has.
    places: u64,
    budget: u64,
    /// A millisecond, and when it was: time goes on from there while the clock
    /// is behind.
    bridge: Mutex<Option<(u64, Moment)>>,
}

impl Ticks {
    /// Above every slot.
    pub(super) const CLOSED: u64 = 1 << 63;

    pub(super) fn new(places: u64, budget: Duration) -> Self {
        Self {
            last: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            full: AtomicU64::new(0),
            bits: places.next_power_of_two().trailing_zeros(),
            places,
            budget: u64::try_from(budget.as_millis()).unwrap_or(u64::MAX),
            bridge: Mutex::new(None),
        }
    }

    /// The next slot at the millisecond `now`.
    #[inline]
    pub(super) fn take(&self, now: u64) -> Result<u64, Hitch> {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = last + 1;
            let room = next >> self.bits == now && next & self.places_mask() < self.places;
            let slot = if room { next } else { self.after(last, now)? };
            if slot >= self.mark.load(Ordering::Acquire) {
                return Err(Hitch::Mark(slot));
            }
            let order = Ordering::Relaxed;
            match self.last.compare_exchange_weak(last, slot, order, order) {
                Ok(_) => return Ok(slot),
                Err(seen) => last = seen,
            }
        }
    }

    /// Up to `most` slots that follow each other within a millisecond, without
    /// crossing a multiple of `lane`.
    pub(super) fn take_many(&self, now: u64, most: u64, lane: u64) -> Result<Range<u64>, Hitch> {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let start = self.after(last, now)?;
            let mark = self.mark.load(Ordering::Acquire);
            if start >= mark {
                return Err(Hitch::Mark(start));
            }
            let end = (start + most.min(lane - start % lane)).min(mark);
            let order = Ordering::Relaxed;
            match self.last.compare_exchange_weak(last, end - 1, order, order) {
                Ok(_) => return Ok(start..end),
                Err(seen) => last = seen,
            }
        }
    }

    fn after(&self, last: u64, now: u64) -> Result<u64, Hitch> {
        let last_at = self.millis(last);
        let room = (last & self.places_mask()) + 1 < self.places;
        let next = if room { last + 1 } else { self.first(last_at + 1) };
        let at = self.millis(next);
        if at <= now {
            let oldest =
                self.full.load(Ordering::Relaxed).saturating_add(CATCH_UP).min(at + CATCH_UP);
            return Ok(if now <= oldest { next } else { next.max(self.first(now)) });
        }
        match last_at.saturating_sub(now) {
            _ if last >= Self::CLOSED => Err(Hitch::Mark(last)),
            0 => Err(self.found_full(now)),
            behind if behind > self.budget => Err(Hitch::Behind(behind)),
            _ if at == last_at => Ok(next),
            _ => self.bridge(next, now),
        }
    }

    fn found_full(&self, now: u64) -> Hitch {
        self.full.store(now, Ordering::Relaxed);
        Hitch::Full
    }

    /// The clock is behind and the last millisecond full: may `next` begin?
    #[cold]
    fn bridge(&self, next: u64, now: u64) -> Result<u64, Hitch> {
        let at = self.millis(next);
        let present = Clock::System.now();
        let reach =
            |(millis, since): (u64, Moment)| millis + present.since(since).as_millis() as u64;
        let mut bridge = self.bridge.lock().unwrap_or_else(PoisonError::into_inner);
        let known = bridge.take().filter(|anchor| reach(*anchor) + 1 >= at);
        let anchor = *bridge.insert(known.unwrap_or((at - 1, present)));
        if at <= reach(anchor) && at - now <= self.budget { Ok(next) } else { Err(Hitch::Full) }
    }

    /// Slots below this may be handed out.
    pub(super) fn set_mark(&self, slot: u64) {
        self.mark.store(slot, Ordering::Release);
    }

    /// Every slot from here on is later than this millisecond.
    pub(super) fn start_above(&self, millis: u64) {
        self.last.fetch_max(self.first(millis + 1) - 1, Ordering::Relaxed);
    }

    /// Hands out nothing any more; the last millisecond that was, once.
    pub(super) fn close(&self) -> Option<u64> {
        self.set_mark(0);
        let last = self.last.swap(Self::CLOSED, Ordering::Relaxed);
        (last < Self::CLOSED).then(|| self.millis(last))
    }

    /// How far the clock is behind, if that is more than the budget.
    pub(super) fn behind(&self, now: u64) -> Option<u64> {
        Some(self.last_at().saturating_sub(now)).filter(|behind| *behind > self.budget)
    }

    /// The millisecond of the last slot.
    pub(super) fn last_at(&self) -> u64 {
        self.millis(self.last.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) const fn millis(&self, slot: u64) -> u64 {
        slot >> self.bits
    }

    /// The first slot of a millisecond.
    pub(super) const fn first(&self, millis: u64) -> u64 {
        millis << self.bits
    }

    #[inline]
    pub(super) const fn place(&self, slot: u64) -> u64 {
        slot & self.places_mask()
    }

    #[inline]
    const fn places_mask(&self) -> u64 {
        (1 << self.bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(places: u64) -> Ticks {
        let ticks = Ticks::new(places, Duration::from_millis(1000));
        ticks.set_mark(Ticks::CLOSED);
        ticks
    }

    fn at(ticks: &Ticks, now: u64) -> Result<(u64, u64), Hitch> {
        ticks.take(now).map(|slot| (ticks.millis(slot), ticks.place(slot)))
    }

    #[test]
    fn a_full_millisecond_waits_for_the_next() {
        let ticks = ticks(3);
        let taken: Vec<_> = (0..3).map(|_| at(&ticks, 100).unwrap()).collect();
        assert_eq!(taken, [(100, 0), (100, 1), (100, 2)]);
        assert_eq!(at(&ticks, 100), Err(Hitch::Full));
        assert_eq!(at(&ticks, 101), Ok((101, 0)));
    }

    #[test]
    fn a_late_waker_loses_nothing_and_an_idle_one_jumps() {
        let ticks = ticks(2);
        (0..2).for_each(|_| assert!(at(&ticks, 100).is_ok()));
        assert_eq!(at(&ticks, 100), Err(Hitch::Full));
        let taken: Vec<_> = (0..4).map(|_| at(&ticks, 103).unwrap()).collect();
        assert_eq!(taken, [(101, 0), (101, 1), (102, 0), (102, 1)]);
        assert_eq!(at(&ticks, 200), Ok((200, 0)), "long ago it was full");
        assert_eq!(at(&ticks, 202), Ok((202, 0)), "it was not full");
    }

    #[test]
    fn a_small_step_back_goes_on_and_a_large_one_is_refused() {
        let ticks = ticks(4);
        assert_eq!(at(&ticks, 5_000), Ok((5_000, 0)));
        assert_eq!(at(&ticks, 4_600), Ok((5_000, 1)));
        assert_eq!(at(&ticks, 3_999), Err(Hitch::Behind(1_001)));
        assert_eq!(at(&ticks, 4_000), Ok((5_000, 2)));
        assert_eq!(at(&ticks, 5_001), Ok((5_001, 0)));
    }

    #[test]
    fn while_the_clock_is_behind_time_goes_on_no_faster_than_it_passes() {
        let ticks = ticks(1);
        assert_eq!(at(&ticks, 5_000), Ok((5_000, 0)));
        let start = Clock::System.now();
        let mut last = 5_000;
        while last < 5_005 {
            if let Ok((millis, _)) = at(&ticks, 4_600) {
                assert_eq!(millis, last + 1);
                last = millis;
            }
        }
        assert!(Clock::System.now().since(start) >= Duration::from_millis(4));
    }

    #[test]
    fn nothing_from_the_mark_on_is_handed_out() {
        let ticks = ticks(4);
        ticks.set_mark(ticks.first(100) + 2);
        assert_eq!(at(&ticks, 100), Ok((100, 0)));
        assert_eq!(ticks.take_many(100, 9, 4), Ok(ticks.first(100) + 1..ticks.first(100) + 2));
        assert_eq!(at(&ticks, 100), Err(Hitch::Mark(ticks.first(100) + 2)));
        assert_eq!(ticks.close(), Some(100));
        assert_eq!(ticks.close(), None);
        assert_eq!(at(&ticks, 100), Err(Hitch::Mark(Ticks::CLOSED)));
        assert_eq!(ticks.take_many(101, 9, 4), Err(Hitch::Mark(Ticks::CLOSED)));
    }

    #[test]
    fn many_stay_within_their_lane_and_millisecond() {
        let ticks = ticks(6);
        ticks.start_above(99);
        assert_eq!(ticks.place(ticks.first(100)), 0);
        let many = |now| ticks.take_many(now, 100, 2).map(|slots| slots.end - slots.start);
        assert_eq!([many(100), many(100), many(100)], [Ok(2); 3]);
        assert_eq!(many(100), Err(Hitch::Full));
        assert_eq!(ticks.last_at(), 100);
    }

    #[test]
    fn threads_never_take_the_same() {
        let ticks = ticks(4096);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let take = |n: u64| {
                scope.spawn({
                    let ticks = &ticks;
                    move || {
                        let times = (0..200_000).map(|i| 1_000 + i / 9_000 - i % (n + 1));
                        let mine: Vec<_> = times.filter_map(|now| ticks.take(now).ok()).collect();
                        assert!(mine.is_sorted());
                        mine
                    }
                })
            };
            let threads: Vec<_> = (0..3).map(take).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 10_000);
    }
}
