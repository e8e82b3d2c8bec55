//! What is remembered of a key: one small record.

use std::time::Duration;

use super::fingerprint::Fingerprint;
use crate::claim::VALUE_MAX;
use crate::error::{Error, ErrorKind, Result};

/// How entries are written; others are refused.
const FORMAT: u8 = 1;
/// What an entry has before its outcome.
const HEAD: usize = 50;
/// The largest outcome that fits into a record.
pub(crate) const OUTCOME_MAX: usize = VALUE_MAX - HEAD;

/// How far the work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Begun. Under the lease this means that whoever began has died.
    Started,
    /// Done; the outcome is here.
    Done,
    /// Failed; the message is here.
    Failed,
    /// Done, but the outcome was too large to keep.
    Bare,
}

impl State {
    const ALL: [Self; 4] = [Self::Started, Self::Done, Self::Failed, Self::Bare];
}

/// An entry. Times are of the wall clock, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) state: State,
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

impl Entry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.outcome.len());
        bytes.extend([FORMAT, self.state as u8]);
        for number in [self.fence, self.at, self.until, self.stamp] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.fingerprint.to_bytes());
        bytes.extend(&self.outcome);
        bytes
    }

    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Self> {
        let state = bytes.get(1).and_then(|tag| State::ALL.get(usize::from(*tag)));
        let Some(state) = state.copied().filter(|_| bytes.len() >= HEAD && bytes[0] == FORMAT)
        else {
            return Err(garbled());
        };
        let (numbers, mark) = bytes[2..HEAD].split_at(32);
        let numbers = numbers.as_chunks::<8>().0;
        let [fence, at, until, stamp] = [0, 1, 2, 3].map(|n| u64::from_be_bytes(numbers[n]));
        let fingerprint = Fingerprint::from_bytes(mark.try_into().map_err(|_| garbled())?);
        // What is left of it is the outcome.
        bytes.drain(..HEAD);
        Ok(Self { state, fence, at, until, stamp, fingerprint, outcome: bytes })
    }

    /// How long ago it was written.
    pub(crate) const fn age(&self, now: u64) -> Duration {
        Duration::from_millis(now.saturating_sub(self.at))
    }
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
        for state in State::ALL {
            let fingerprint = Fingerprint::of_bytes(b"x");
            let outcome = b"paid".to_vec();
            let entry = Entry { state, fence: 7, at: 1, until: 2, stamp: 3, fingerprint, outcome };
            let bytes = entry.encode();
            assert_eq!(bytes.len(), HEAD + 4);
            assert_eq!(Entry::decode(bytes).unwrap(), entry);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for bytes in [vec![], vec![9; 60], vec![FORMAT; 20], b"{\"a\": 1}".to_vec()] {
            assert!(Entry::decode(bytes).is_err());
        }
    }
}
