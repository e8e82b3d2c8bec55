//! Ids, for threads.

use std::ops::Range;

use super::call::block_on;
use crate::error::Result;
use crate::recipes::ids::stripe::MANY;
use crate::recipes::ids::{Ids, Segment, SegmentIds, Snowflake, SnowflakeIds, Stripe};

impl super::Locks {
    /// The ids of `tag`; see [`crate::Locks::ids`].
    #[must_use]
    pub fn ids(&self, tag: impl Into<String>) -> Ids {
        self.as_async().ids(tag)
    }
}

impl Segment {
    /// Like `open`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Segment::open`]; `Invalid` inside an async runtime.
    pub fn blocking_open(self) -> Result<SegmentIds> {
        block_on(self.open())
    }
}

impl Snowflake {
    /// Like `open`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Snowflake::open`]; `Invalid` inside an async runtime.
    pub fn blocking_open(self) -> Result<SnowflakeIds> {
        block_on(self.open())
    }
}

impl SegmentIds {
    /// Like `next`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::next`]; `Invalid` if it has to wait inside an
    /// async runtime.
    #[inline]
    pub fn blocking_next(&self) -> Result<u64> {
        match self.try_next()? {
            Some(id) => Ok(id),
            None => block_on(self.next()),
        }
    }

    /// Like `batch`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::batch`]; `Invalid` inside an async runtime.
    pub fn blocking_batch(&self, count: usize) -> Result<Vec<u64>> {
        block_on(self.batch(count))
    }

    /// Like `close`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`SegmentIds::close`]; `Invalid` inside an async runtime.
    pub fn blocking_close(&self) -> Result<()> {
        block_on(self.close())
    }
}

impl Stripe {
    /// Like `next`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`Stripe::next`]; `Invalid` if it has to wait inside an async
    /// runtime.
    #[inline]
    pub fn blocking_next(&mut self) -> Result<u64> {
        // With nothing at hand it blocks, so there is always one.
        self.next_of(more).map(Option::unwrap_or_default)
    }
}

#[cold]
fn more(ids: &SegmentIds) -> Result<Option<Range<u64>>> {
    match ids.take(MANY)? {
        Some(range) => Ok(Some(range)),
        None => block_on(ids.take_later(MANY)).map(Some),
    }
}

impl SnowflakeIds {
    /// Like `next`, for threads: sleeps while a millisecond is full.
    ///
    /// # Errors
    ///
    /// Those of [`SnowflakeIds::next`]; `Invalid` if it has to wait for the
    /// engine inside an async runtime.
    #[inline]
    pub fn blocking_next(&self) -> Result<u64> {
        loop {
            match self.attempt() {
                Ok(id) => return Ok(id),
                Err(hitch) if self.block(hitch)? => {}
                Err(_) => return block_on(self.next()),
            }
        }
    }

    /// Like `batch`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`SnowflakeIds::batch`]; `Invalid` if it has to wait for the
    /// engine inside an async runtime.
    pub fn blocking_batch(&self, count: usize) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(count);
        while let Err(hitch) = self.append(&mut ids, count) {
            if !self.block(hitch)? {
                ids.push(block_on(self.next())?);
            }
        }
        Ok(ids)
    }

    /// Like `close`, for threads.
    ///
    /// # Errors
    ///
    /// Those of [`SnowflakeIds::close`]; `Invalid` inside an async runtime.
    pub fn blocking_close(&self) -> Result<()> {
        block_on(self.close())
    }
}
