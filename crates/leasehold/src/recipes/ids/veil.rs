//! The veil: ids that do not tell how many there are.

use std::fmt;

use super::text::{Alphabet, Text, number};
use crate::error::{Error, Result};

/// Four rounds make a permutation of a good round function one that cannot be
/// told from a random one, forwards and backwards (Luby and Rackoff).
const ROUNDS: usize = 4;
/// The most versions of a key: what one character of either alphabet can say.
const VERSIONS: u8 = 32;

/// Hides ids behind a keyed permutation: who does not know the key cannot tell
/// from two ids how many lie between them, nor guess a neighbour.
///
/// Each id has one text of one width, which begins with the version of the key.
/// So keys can be changed: old texts are still read.
///
/// It hides counts; it keeps no secrets. The permutation is quick, not proven,
/// and equal ids look equal. Check who may see a thing; do not trust that
/// nobody knows its id.
///
/// ```
/// use leasehold::ids::{Alphabet, Veil};
///
/// let veil = Veil::new(1, [7; 16])?;
/// let shown = veil.hide(1000, Alphabet::Crockford);
/// assert_eq!(shown.len(), 14);
/// assert_eq!(veil.reveal(&shown, Alphabet::Crockford)?, 1000);
///
/// let newer = Veil::new(2, [8; 16])?.and(1, [7; 16])?;
/// assert_eq!(newer.reveal(&shown, Alphabet::Crockford)?, 1000);
/// assert_ne!(newer.hide(1000, Alphabet::Crockford), shown);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Veil {
    /// The first is the one that hides.
    keys: Vec<(u8, RoundKeys)>,
}

impl Veil {
    /// Hides with this version of the key, one of 0 to 31.
    ///
    /// # Errors
    ///
    /// `Invalid` for another version.
    pub fn new(version: u8, key: [u8; 16]) -> Result<Self> {
        Self { keys: Vec::new() }.and(version, key)
    }

    /// The same veil, which also reads texts of this version of the key.
    ///
    /// # Errors
    ///
    /// `Invalid` for a version above 31, or one that is there already.
    pub fn and(mut self, version: u8, key: [u8; 16]) -> Result<Self> {
        if version >= VERSIONS || self.key(version).is_some() {
            let text = format!("a key has a version of its own, one of 0 to {}", VERSIONS - 1);
            return Err(Error::invalid(text).with("version", version));
        }
        self.keys.push((version, RoundKeys::new(key)));
        Ok(self)
    }

    /// An id as a text that does not tell it.
    #[must_use]
    pub fn hide(&self, id: u64, alphabet: Alphabet) -> Text {
        let (version, key) = &self.keys[0];
        Text::of(key.permute(id), alphabet, Some(*version))
    }

    /// The id behind a text.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no such text, or was made with another key.
    pub fn reveal(&self, text: &str, alphabet: Alphabet) -> Result<u64> {
        let (version, rest) = text.as_bytes().split_first().ok_or_else(unread)?;
        let version = alphabet.digit(*version).ok_or_else(unread)?;
        let hidden = number(rest, alphabet).ok_or_else(unread)?;
        let key = self.key(version).ok_or_else(|| {
            Error::invalid("the id was hidden with a key that is not known here; add it (and)")
                .with("version", version)
        })?;
        Ok(key.restore(hidden))
    }

    /// A number that stands for an id and does not tell it.
    #[must_use]
    pub fn permute(&self, id: u64) -> u64 {
        self.keys[0].1.permute(id)
    }

    /// The id that a number stands for.
    #[must_use]
    pub fn restore(&self, hidden: u64) -> u64 {
        self.keys[0].1.restore(hidden)
    }

    fn key(&self, version: u8) -> Option<&RoundKeys> {
        self.keys.iter().find(|(known, _)| *known == version).map(|(_, key)| key)
    }
}

fn unread() -> Error {
    Error::invalid("no hidden id: expected one character for the key and those of an id")
}

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<u8> = self.keys.iter().map(|(version, _)| *version).collect();
        f.debug_struct("Veil").field("versions", &versions).finish_non_exhaustive()
    }
}

/// What a key comes to: two numbers for each round.
#[derive(Clone)]
struct RoundKeys([(u64, u64); ROUNDS]);

impl RoundKeys {
    fn new(key: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(key);
        let (mut a, mut b) = (key as u64, (key >> 64) as u64);
        Self(std::array::from_fn(|_| {
            // Both halves of the key go into each round.
            a = scatter(a ^ b.rotate_left(23));
            b = scatter(b.wrapping_add(a));
            (a, b | 1)
        }))
    }

    #[inline]
    fn permute(&self, id: u64) -> u64 {
        let (left, right) = self
            .0
            .iter()
            .fold(halves(id), |(left, right), round| (right, left ^ mix(right, *round)));
        join(left, right)
    }

    #[inline]
    fn restore(&self, hidden: u64) -> u64 {
        let (left, right) = self
            .0
            .iter()
            .rev()
            .fold(halves(hidden), |(left, right), round| (right ^ mix(left, *round), left));
        join(left, right)
    }
}

const fn halves(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}

const fn join(left: u32, right: u32) -> u64 {
    (left as u64) << 32 | right as u64
}

/// The round function: both multiplications depend on the key, and the upper
/// half of each, which every bit below has reached, goes on.
#[inline]
const fn mix(half: u32, (add, odd): (u64, u64)) -> u32 {
    let first = (half as u64 ^ add).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = (first ^ first >> 32).wrapping_mul(odd);
    (second >> 32) as u32
}

/// A step of splitmix64.
const fn scatter(number: u64) -> u64 {
    let a = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ a >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ b >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ c >> 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_hidden_comes_back(id: u64, key: [u8; 16]) {
            let veil = Veil::new(31, key).unwrap();
            prop_assert_eq!(veil.restore(veil.permute(id)), id);
            for alphabet in [Alphabet::Crockford, Alphabet::Base62] {
                let text = veil.hide(id, alphabet);
                prop_assert_eq!(veil.reveal(&text, alphabet).unwrap(), id);
            }
        }
    }

    #[test]
    fn one_bit_changes_half_of_all_others() {
        let veil = Veil::new(0, *b"a key of 16 byte").unwrap();
        for bit in 0..64 {
            let flips = (0..2_000_u64)
                .map(|id| (veil.permute(id) ^ veil.permute(id ^ 1 << bit)).count_ones());
            let mean = f64::from(flips.sum::<u32>()) / 2_000.0;
            assert!((31.0..33.0).contains(&mean), "bit {bit}: {mean}");
        }
    }

    #[test]
    fn counting_ids_look_evenly_spread() {
        // Chi-square over 256 buckets of each byte: 255 degrees of freedom, so
        // above 400 is less likely than one in a billion.
        let veil = Veil::new(0, [0; 16]).unwrap();
        for byte in 0..8 {
            let mut buckets = [0_u32; 256];
            for id in 1..=65_536 {
                buckets[(veil.permute(id) >> (8 * byte)) as usize & 255] += 1;
            }
            let chi: f64 = buckets.iter().map(|n| (f64::from(*n) - 256.0).powi(2) / 256.0).sum();
            assert!(chi < 400.0, "byte {byte}: {chi}");
        }
    }

    #[test]
    fn a_key_is_known_by_its_version_alone() {
        let veil = Veil::new(3, [1; 16]).unwrap();
        let text = veil.hide(5, Alphabet::Base62);
        let other = Veil::new(4, [1; 16]).unwrap();
        assert!(other.reveal(&text, Alphabet::Base62).unwrap_err().to_string().contains("key"));
        assert!(Veil::new(32, [0; 16]).is_err() && veil.clone().and(3, [2; 16]).is_err());
        assert_eq!(format!("{veil:?}"), "Veil { versions: [3], .. }");
        assert!(veil.reveal("", Alphabet::Base62).is_err());
    }
}
