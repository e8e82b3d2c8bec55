//! A stripe: ids that one thread or task has taken for itself.

use std::ops::Range;

use super::segment::SegmentIds;
use crate::error::Result;

/// How many ids are taken at a time.
pub(crate) const MANY: u64 = 512;

/// Segment ids for one thread or task: taken from the generator a few hundred
/// at a time, so that nothing is shared in between.
///
/// They rise within the stripe. What is left when it is dropped is a gap.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let orders = locks.ids("orders").segment().open().await?;
/// let (mut a, mut b) = (orders.stripe(), orders.stripe());
/// let (first, other) = (a.next().await?, b.next().await?);
/// assert_eq!(a.next().await?, first + 1);
/// assert!(other > first + 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Stripe {
    ids: SegmentIds,
    stride: u64,
    next: u64,
    end: u64,
}

impl SegmentIds {
    /// A stripe of these ids for one thread or task, which is many times faster
    /// where several want ids all the time. Ids rise within a stripe, and not
    /// between stripes.
    #[must_use]
    pub fn stripe(&self) -> Stripe {
        Stripe { ids: self.clone(), stride: self.stride(), next: 0, end: 0 }
    }
}

impl Stripe {
    /// The next id.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::next`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses no id.
    #[inline]
    pub async fn next(&mut self) -> Result<u64> {
        if self.next >= self.end {
            let more = self.ids.take_later(MANY).await?;
            (self.next, self.end) = (more.start, more.end);
        }
        Ok(self.step())
    }

    /// The next id if one is at hand; never waits.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::try_next`].
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<u64>> {
        self.next_of(at_hand)
    }

    /// The next id; of what `more` gives, if it has none. Its numbers are handed
    /// on by value, so that they can be kept in registers.
    #[inline]
    pub(crate) fn next_of(
        &mut self,
        more: impl FnOnce(&SegmentIds) -> Result<Option<Range<u64>>>,
    ) -> Result<Option<u64>> {
        if self.next >= self.end {
            let Some(more) = more(&self.ids)? else { return Ok(None) };
            (self.next, self.end) = (more.start, more.end);
        }
        Ok(Some(self.step()))
    }

    #[inline]
    const fn step(&mut self) -> u64 {
        let id = self.next;
        self.next += self.stride;
        id
    }
}

#[cold]
fn at_hand(ids: &SegmentIds) -> Result<Option<Range<u64>>> {
    ids.take(MANY)
}
