//! How long letters take: data, not a stream that is drawn on the way, so that
//! a fault which is left out moves nobody else's letters.

use std::ops::Range;

use super::Way;

/// Delays in microseconds, drawn by who writes to whom and which letter it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Chance that belongs to the delays alone.
    pub seed: u64,
    /// What a letter takes.
    pub usual: Range<u64>,
    /// One letter in so many takes long; 0 is none.
    pub one_in: u32,
    /// What such a letter takes.
    pub long: Range<u64>,
}

impl Delays {
    /// Every letter takes the same time.
    #[must_use]
    pub const fn constant(micros: u64) -> Self {
        Self { seed: 0, usual: micros..micros + 1, one_in: 0, long: 0..1 }
    }

    /// Mostly under a millisecond, sometimes up to half a second.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, usual: 50..800, one_in: 200, long: 50_000..500_000 }
    }

    /// Of the letter `number` between these two.
    #[must_use]
    pub fn of(&self, client: usize, node: usize, way: Way, number: u64) -> u64 {
        let place = (client as u64) << 40 ^ (node as u64) << 32 ^ u64::from(way == Way::Back) << 63;
        let mut chance = fastrand::Rng::with_seed(mixed(self.seed ^ mixed(place ^ number)));
        let long = self.one_in > 0 && chance.u32(..self.one_in) == 0;
        chance.u64(if long { self.long.clone() } else { self.usual.clone() })
    }
}

/// Neighbours become strangers (the finalizer of splitmix64).
const fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
