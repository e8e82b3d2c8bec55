//! What is remembered of a key: one small record.

use std::time::Duration;

use super::fingerprint::Fingerprint;
use crate::claim::{RawRecord, VALUE_MAX};
use crate::error::{Error, ErrorKind, Result};

/// How entries are written; others are refused.
const FORMAT: u8 = 2;
/// The most that an entry has before its outcome.
const HEAD: usize = 46;
/// Marks, beside the state: there is a stamp, there is a fingerprint.
const STAMPED: u8 = 4;
const PRINTED: u8 = 8;
/// The largest outcome that fits into a record.
pub(crate) const OUTCOME_MAX: usize = VALUE_MAX - HEAD;

/// How far the work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Begun. Under the lease this means that whoever began has died.
    Started,
    /// Done; the outcome is here.
    Done,
    /// Failed; the message is here.
    Failed,
    /// Done, but the outcome was too large to keep.
    Bare,
}

impl Progress {
    const ALL: [Self; 4] = [Self::Started, Self::Done, Self::Failed, Self::Bare];
}

/// An entry. Times are of the wall clock, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) state: Progress,
    /// The lease under which it was written: tells our own writing from others'.
    pub(crate) fence: u64,
    /// When it was written.
    pub(crate) at: u64,
    /// Until when the outcome is given out; then it is a tombstone.
    pub(crate) until: u64,
    /// What the first caller called its time, for traces; 0 for none.
    pub(crate) stamp: u64,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) outcome: Vec<u8>,
}

/// An entry in the version it was found in.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) entry: KeyEntry,
    pub(super) version: u64,
}

impl Found {
    pub(super) fn of(record: RawRecord) -> Result<Self> {
        Ok(Self { version: record.version, entry: KeyEntry::decode(record.value)? })
    }
}

impl KeyEntry {
    /// There are many, for long: what says nothing is left out, and times are
    /// six bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (stamped, printed) = (self.stamp != 0, self.fingerprint != Fingerprint::none());
        let marks = (u8::from(stamped) * STAMPED) | (u8::from(printed) * PRINTED);
        let mut bytes = Vec::with_capacity(HEAD + self.outcome.len());
        bytes.extend([FORMAT, self.state as u8 | marks]);
        bytes.extend(self.fence.to_be_bytes());
        bytes.extend(six_of(self.at));
        bytes.extend(six_of(self.until));
        if stamped {
            bytes.extend(self.stamp.to_be_bytes());
        }
        if printed {
            bytes.extend(self.fingerprint.to_bytes());
        }
        bytes.extend(&self.outcome);
        bytes
    }

    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Self> {
        let mut rest = &bytes[..];
        let head = Self::take_head(&mut rest).ok_or_else(garbled)?;
        // What is left of it is the outcome.
        let head_size = bytes.len() - rest.len();
        bytes.drain(..head_size);
        Ok(Self { outcome: bytes, ..head })
    }

    /// An entry without its outcome.
    fn take_head(rest: &mut &[u8]) -> Option<Self> {
        let [FORMAT, marks] = take(rest)? else { return None };
        let known = STAMPED | PRINTED;
        let state = *Progress::ALL.get(usize::from(marks & !known))?;
        let fence = u64::from_be_bytes(take(rest)?);
        let (at, until) = (of_six(take(rest)?), of_six(take(rest)?));
        let stamp = if marks & STAMPED == 0 { 0 } else { u64::from_be_bytes(take(rest)?) };
        let fingerprint = match marks & PRINTED {
            0 => Fingerprint::none(),
            _ => Fingerprint::from_bytes(take(rest)?),
        };
        Some(Self { state, fence, at, until, stamp, fingerprint, outcome: Vec::new() })
    }

    /// How long ago it was written.
    pub(crate) const fn age(&self, now: u64) -> Duration {
        Duration::from_millis(now.saturating_sub(self.at))
    }
}

/// Good for nine thousand years; what is later is as good as never.
fn six_of(millis: u64) -> [u8; 6] {
    let [_, _, six @ ..] = millis.min((1 << 48) - 1).to_be_bytes();
    six
}

const fn of_six([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn garbled() -> Error {
    let text = "the record of this key was not written by `once`, or by a newer release";
    Error::new(ErrorKind::Unexpected, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let prints = [Fingerprint::none(), Fingerprint::of_bytes(b"x")];
        for (state, stamp) in Progress::ALL.into_iter().zip([0, 3, u64::MAX, 0]) {
            for fingerprint in prints {
                let (fence, outcome) = (u64::MAX, b"paid".to_vec());
                let entry = KeyEntry { state, fence, at: 1, until: 2, stamp, fingerprint, outcome };
                let bytes = entry.encode();
                assert!(bytes.len() <= HEAD + 4);
                assert_eq!(KeyEntry::decode(bytes).unwrap(), entry);
            }
        }
    }

    #[test]
    fn a_time_that_is_too_late_to_write_is_as_late_as_can_be() {
        assert_eq!(of_six(six_of(u64::MAX)), (1 << 48) - 1);
        assert_eq!(of_six(six_of(1 << 47)), 1 << 47);
    }

    #[test]
    fn what_is_none_is_refused() {
        for bytes in
            [vec![], vec![9; 60], vec![FORMAT; 20], [FORMAT, 16].repeat(30), b"{\"a\": 1}".to_vec()]
        {
            assert!(KeyEntry::decode(bytes).is_err());
        }
    }
}
