//! Ids that are unique over all processes, without a request for each.
//!
//! | kind | what it is | order | what an id tells |
//! |---|---|---|---|
//! | [`SegmentIds`] | numbers from blocks that the engine hands out | rising within a process | how many there are |
//! | [`SnowflakeIds`] | time, worker and sequence in 63 bits | rising within a process, by time among all | when, and on which worker |
//!
//! [`Veil`] hides either behind a keyed permutation, in texts of one width.

mod layout;
mod pace;
mod segment;
mod snowflake;
mod snowflake_builder;
mod stock;
pub(crate) mod stripe;
mod supply;
mod tenure;
mod text;
mod ticks;
mod veil;
mod worker;

pub use self::layout::{Layout, Parts};
pub use self::segment::{Runway, Segment, SegmentIds};
pub use self::snowflake::SnowflakeIds;
pub use self::snowflake_builder::{Freshness, Snowflake};
pub use self::stripe::Stripe;
pub use self::text::{Alphabet, Text, decode, encode};
pub use self::veil::Veil;
pub use crate::clock::wall::{TestWall, WallClock};
use crate::locks::Locks;

/// The ids of one kind of thing: `orders`, `users`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// let orders = locks.ids("orders").segment().open().await?;
/// assert!(orders.next().await? < orders.next().await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Ids {
    locks: Locks,
    tag: String,
}

impl Locks {
    /// The ids of `tag`; needs the cargo feature `ids`.
    ///
    /// A tag that is no valid name is an error of the `open` that uses it.
    #[must_use]
    pub fn ids(&self, tag: impl Into<String>) -> Ids {
        Ids { locks: self.clone(), tag: tag.into() }
    }
}

impl Ids {
    /// Numbers from blocks that the engine hands out.
    pub fn segment(&self) -> Segment {
        Segment::new(&self.locks, &self.tag)
    }

    /// Time, worker and sequence, with a worker number leased from the engine.
    pub fn snowflake(&self) -> Snowflake {
        Snowflake::leased(&self.locks, &self.tag)
    }
}
