//! How a record lies in its value: behind a line about the lease it is bound to, or
//! bare, for other software.

use std::sync::Arc;

use super::bonds::Bond;
use crate::error::{Error, Result};
use crate::url::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum RecordFormat {
    /// What it is bound to, and itself: whoever reads it can tell whether it counts.
    Own,
    /// Itself, where its name says.
    Raw,
}

const PLAIN: u8 = 0;
const BOUND: u8 = 1;

impl RecordFormat {
    /// What a URL says.
    pub(in crate::engines) fn of(options: &Options) -> Result<Self> {
        match options.get("records")? {
            None | Some("own") => Ok(Self::Own),
            Some("raw") => Ok(Self::Raw),
            Some(_) => Err(Error::invalid("option \"records\" takes own or raw")),
        }
    }

    /// A value as it is stored. A raw one does not say what it is bound to.
    pub(super) fn packed(self, value: &[u8], bond: Option<&Bond>) -> Vec<u8> {
        match (self, bond) {
            (Self::Raw, _) => value.to_vec(),
            (Self::Own, None) => [&[PLAIN], value].concat(),
            (Self::Own, Some((key, fence))) => {
                let length = u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes();
                [&[BOUND], &length[..], key.as_bytes(), &fence.to_be_bytes(), value].concat()
            }
        }
    }

    /// Takes a stored value apart. What nobody of ours wrote is bound to nothing.
    pub(super) fn unpacked(self, bytes: &[u8]) -> (Option<Bond>, &[u8]) {
        match self {
            Self::Raw => (None, bytes),
            Self::Own => match bound(bytes) {
                Some((bond, value)) => (Some(bond), value),
                None => (None, bytes.strip_prefix(&[PLAIN]).unwrap_or(bytes)),
            },
        }
    }
}

fn bound(bytes: &[u8]) -> Option<(Bond, &[u8])> {
    let (length, rest) = bytes.strip_prefix(&[BOUND])?.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (fence, value) = rest.split_first_chunk::<8>()?;
    let key = std::str::from_utf8(key).ok()?;
    Some(((Arc::from(key), u64::from_be_bytes(*fence)), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_comes_back_and_strangers_values_are_plain() {
        let (own, bond) = (RecordFormat::Own, (Arc::from("/locks/a/_c_1"), 7));
        assert_eq!(own.unpacked(&own.packed(b"v", Some(&bond))), (Some(bond), &b"v"[..]));
        assert_eq!(own.unpacked(&own.packed(b"v", None)), (None, &b"v"[..]));
        assert_eq!(own.unpacked(b"text"), (None, &b"text"[..]));
        assert_eq!(own.unpacked(&[BOUND, 9, 9]), (None, &[BOUND, 9, 9][..]));
    }

    #[test]
    fn a_raw_value_is_what_lies_there() {
        let bond = (Arc::from("/locks/a/_c_1"), 7);
        for value in [&b"v"[..], b"", &[PLAIN, 1], &[BOUND, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            let raw = RecordFormat::Raw;
            assert_eq!(raw.packed(value, Some(&bond)), value);
            assert_eq!(raw.unpacked(value), (None, value));
        }
    }
}
