//! Ids as text of one width, which sorts like the numbers.

use std::fmt;
use std::ops::Deref;

use crate::error::{Error, Result};

/// The most characters of a text.
const MOST: usize = 14;

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// What is no digit.
const NONE: u8 = 0xff;
const CROCKFORD_DIGITS: [u8; 256] = digits(CROCKFORD);
const BASE62_DIGITS: [u8; 256] = digits(BASE62);

const fn digits(alphabet: &[u8]) -> [u8; 256] {
    let mut digits = [NONE; 256];
    let mut digit = 0;
    while digit < alphabet.len() {
        digits[alphabet[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
}

/// The characters of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alphabet {
    /// Crockford's base 32: 13 capital letters and digits, none of them easily
    /// mistaken; for people.
    Crockford,
    /// Base 62: 11 letters and digits, where case counts; for URLs.
    Base62,
}

impl Alphabet {
    /// How many characters an id has.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Crockford => 13,
            Self::Base62 => 11,
        }
    }

    const fn symbols(self) -> &'static [u8] {
        match self {
            Self::Crockford => CROCKFORD,
            Self::Base62 => BASE62,
        }
    }

    const fn digits(self) -> &'static [u8; 256] {
        match self {
            Self::Crockford => &CROCKFORD_DIGITS,
            Self::Base62 => &BASE62_DIGITS,
        }
    }

    /// The digit that a character stands for.
    pub(super) fn digit(self, symbol: u8) -> Option<u8> {
        Some(self.digits()[usize::from(symbol)]).filter(|digit| *digit != NONE)
    }
}

/// A short text that needs no memory of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text {
    bytes: [u8; MOST],
    length: u8,
}

impl Text {
    /// Room for an id, with this digit before it, if there is one.
    pub(super) fn of(id: u64, alphabet: Alphabet, before: Option<u8>) -> Self {
        let mut bytes = [0; MOST];
        let head = usize::from(before.is_some());
        if let Some(digit) = before {
            bytes[0] = alphabet.symbols()[usize::from(digit)];
        }
        let length = head + alphabet.width();
        match alphabet {
            Alphabet::Crockford => crockford(id, &mut bytes[head..length]),
            Alphabet::Base62 => base62(id, &mut bytes[head..length]),
        }
        Self { bytes, length: length as u8 }
    }
}

fn crockford(id: u64, into: &mut [u8]) {
    let last = into.len() - 1;
    for (at, symbol) in into.iter_mut().enumerate() {
        *symbol = CROCKFORD[(id >> ((last - at) * 5)) as usize & 31];
    }
}

/// In two halves, so that one need not wait for the other.
fn base62(id: u64, into: &mut [u8]) {
    const HALF: u64 = 62_u64.pow(6);
    let (mut high, mut low) = (id / HALF, id % HALF);
    let (front, back) = into.split_at_mut(5);
    for at in (0..6).rev() {
        back[at] = BASE62[(low % 62) as usize];
        low /= 62;
        if at > 0 {
            front[at - 1] = BASE62[(high % 62) as usize];
            high /= 62;
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An id as text.
///
/// ```
/// use leasehold::ids::{Alphabet, decode, encode};
///
/// assert_eq!(&*encode(42, Alphabet::Crockford), "000000000001A");
/// assert_eq!(&*encode(u64::MAX, Alphabet::Base62), "LygHa16AHYF");
/// assert_eq!(decode("000000000001A", Alphabet::Crockford)?, 42);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use]
pub fn encode(id: u64, alphabet: Alphabet) -> Text {
    Text::of(id, alphabet, None)
}

/// The id that a text stands for. Each id has one text: other spellings,
/// such as small letters in base 32, are refused.
///
/// # Errors
///
/// `Invalid` if it is no such text.
pub fn decode(text: &str, alphabet: Alphabet) -> Result<u64> {
    number(text.as_bytes(), alphabet).ok_or_else(|| {
        let (width, symbols) = (alphabet.width(), alphabet.symbols());
        let symbols = String::from_utf8_lossy(symbols);
        Error::invalid(format!("no id: expected {width} characters of {symbols}"))
    })
}

pub(super) fn number(text: &[u8], alphabet: Alphabet) -> Option<u64> {
    if text.len() != alphabet.width() {
        return None;
    }
    let (digits, base) = (alphabet.digits(), alphabet.symbols().len() as u64);
    // All but the last digit fit; a wrong one shows in the sum of all.
    let (front, last) = text.split_at(text.len() - 1);
    let (mut number, mut wrong) = (0_u64, 0);
    for symbol in front {
        let digit = digits[usize::from(*symbol)];
        wrong |= digit;
        number = number.wrapping_mul(base).wrapping_add(u64::from(digit));
    }
    let digit = digits[usize::from(last[0])];
    if (wrong | digit) & 0x80 != 0 {
        return None;
    }
    number.checked_mul(base)?.checked_add(u64::from(digit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [Alphabet; 2] = [Alphabet::Crockford, Alphabet::Base62];

    #[test]
    fn only_one_text_stands_for_an_id() {
        for text in ["", "1", "0000000000000", "000000000001a", "00000000000O1", "ZZZZZZZZZZZZZ"] {
            let fit = text == "0000000000000";
            assert_eq!(decode(text, Alphabet::Crockford).is_ok(), fit, "{text}");
        }
        for text in ["LygHa16AHYG", "zzzzzzzzzzz", "0000000000é", "00000000 01"] {
            assert!(decode(text, Alphabet::Base62).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_come_back_and_sort_like_numbers(a: u64, b: u64) {
            for alphabet in BOTH {
                let (x, y) = (encode(a, alphabet), encode(b, alphabet));
                prop_assert_eq!(decode(&x, alphabet).unwrap(), a);
                prop_assert_eq!(x.len(), alphabet.width());
                prop_assert_eq!(a.cmp(&b), (*x).cmp(&*y));
            }
        }

        #[test]
        fn what_is_read_is_written_the_same(text in "[0-9A-Za-z]{11,13}") {
            for alphabet in BOTH {
                if let Ok(id) = decode(&text, alphabet) {
                    prop_assert_eq!(&*encode(id, alphabet), text.as_str());
                }
            }
        }
    }
}
