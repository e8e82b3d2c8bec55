//! A stripe: a few numbers that one thread has taken for itself.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;

/// How many generators one thread may have stripes of, beside the last used.
const MOST: usize = 32;

/// A new identity for a generator: never zero, never used again.
pub(super) fn owner() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The numbers of one generator on this thread.
#[derive(Debug)]
struct Stripe {
    owner: Cell<u64>,
    next: Cell<u64>,
    end: Cell<u64>,
}

thread_local! {
    /// The stripe that was used last; without a destructor, to be quick.
    static LAST: Stripe =
        const { Stripe { owner: Cell::new(0), next: Cell::new(0), end: Cell::new(0) } };
    /// Those of other generators.
    static OTHERS: RefCell<Vec<(u64, Range<u64>)>> = const { RefCell::new(Vec::new()) };
}

/// The next number of `owner` on this thread, `step` after the one before; or
/// the first of what `refill` gives.
#[inline]
pub(super) fn next(
    owner: u64,
    step: u64,
    refill: impl FnOnce() -> Result<Option<Range<u64>>>,
) -> Result<Option<u64>> {
    LAST.with(|last| {
        let next = last.next.get();
        if last.owner.get() == owner && next < last.end.get() {
            last.next.set(next + step);
            return Ok(Some(next));
        }
        last.turn(owner, step, refill)
    })
}

impl Stripe {
    #[cold]
    fn turn(
        &self,
        owner: u64,
        step: u64,
        refill: impl FnOnce() -> Result<Option<Range<u64>>>,
    ) -> Result<Option<u64>> {
        let kept = if self.owner.get() == owner { None } else { self.swap(owner) };
        let range = match kept {
            Some(range) => range,
            None => match refill()? {
                Some(range) => range,
                None => return Ok(None),
            },
        };
        self.next.set(range.start + step);
        self.end.set(range.end);
        Ok(Some(range.start))
    }

    /// Puts the present stripe aside; gives that of `owner`, if there is one.
    fn swap(&self, owner: u64) -> Option<Range<u64>> {
        let aside = (self.owner.replace(owner), self.next.get()..self.end.replace(0));
        let swapped = OTHERS.try_with(|others| {
            let mut others = others.borrow_mut();
            let found = others.iter().position(|(of, _)| *of == owner);
            let found = found.map(|at| others.swap_remove(at).1);
            if !aside.1.is_empty() {
                others.truncate(MOST - 1);
                others.insert(0, aside);
            }
            found
        });
        // A thread at its very end has none left.
        swapped.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_keep_their_stripes_apart() {
        let (a, b) = (owner(), owner());
        let take = |owner, range: Range<u64>| next(owner, 1, || Ok(Some(range))).unwrap().unwrap();
        assert_eq!(take(a, 0..3), 0);
        assert_eq!(take(b, 10..12), 10);
        assert_eq!(take(a, 90..99), 1);
        assert_eq!(take(b, 90..99), 11);
        assert_eq!(take(b, 20..22), 20);
        assert_eq!(take(a, 90..99), 2);
        assert_eq!(take(a, 5..6), 5);
    }
}
