//! Fences at the resource: what makes a late writer harmless.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::claim::Mode;
use crate::error::{Error, ErrorKind, Result};

/// The name of the HTTP header that carries a [`Sequencer`].
pub const SEQUENCER_HEADER: &str = "Leasehold-Sequencer";

/// Name, mode and fence of a lease as one text, as in Chubby: a client shows it
/// to a server, and the server refuses it once a later one has been seen.
///
/// The text is visible ASCII, so it fits an HTTP header as it is; other bytes of
/// the name are percent-encoded.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Sequencer;
///
/// let guard = locks.mutex("shard/7").lock().await?;
/// let shown = guard.sequencer().to_string();
/// assert_eq!(shown, format!("exclusive:{}:shard/7", guard.fence()));
/// assert_eq!(shown.parse::<Sequencer>()?, guard.sequencer());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sequencer {
    /// How the name is held.
    pub mode: Mode,
    /// The fence.
    pub fence: u64,
    /// The name.
    pub name: Arc<str>,
}

impl Sequencer {
    /// A sequencer of its parts.
    #[must_use]
    pub fn new(mode: Mode, fence: u64, name: impl Into<Arc<str>>) -> Self {
        Self { mode, fence, name: name.into() }
    }
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Mode::Permits { take, of } => write!(f, "permits-{take}-{of}:{}:", self.fence)?,
            mode => write!(f, "{mode}:{}:", self.fence)?,
        }
        for byte in self.name.bytes() {
            match byte {
                b'!'..=b'~' if byte != b'%' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02x}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Sequencer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().unwrap_or_default();
        let (mode, fence, name) = (mode(part()), part().parse().ok(), part());
        match (mode, fence, crate::url::decode(name)) {
            (Some(mode), Some(fence), Ok(name)) if !name.is_empty() => {
                Ok(Self::new(mode, fence, name))
            }
            _ => Err(Error::invalid("a sequencer reads MODE:FENCE:NAME, such as exclusive:17:job")),
        }
    }
}

fn mode(text: &str) -> Option<Mode> {
    match text {
        "exclusive" => Some(Mode::Exclusive),
        "read" => Some(Mode::Read),
        "write" => Some(Mode::Write),
        _ => {
            let (take, of) = text.strip_prefix("permits-")?.split_once('-')?;
            Some(Mode::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

/// A value that refuses late writers: a resource inside a process.
///
/// The check and the access are one step, under the value's own lock. A check
/// that comes first and an access that comes later would let a writer through
/// that was paused in between.
///
/// Writers (`Exclusive`, `Write`) raise the mark, readers compare without
/// raising it, and permits are refused: their holders are valid side by side,
/// and a mark would let only the latest of them in.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Fenced;
///
/// let stock = Fenced::new(10);
/// let first = locks.mutex("stock").lock().await?.sequencer(); // dropped: released
/// let second = locks.mutex("stock").lock().await?;
///
/// stock.write(&second.sequencer(), |left| *left -= 1)?;
/// let late = stock.write(&first, |left| *left -= 1);
/// assert!(late.unwrap_err().is_lost());
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Fenced<T>(Mutex<Marked<T>>);

#[derive(Debug, Default)]
struct Marked<T> {
    mark: u64,
    value: T,
}

impl<T> Fenced<T> {
    /// A value that no one has written yet.
    pub const fn new(value: T) -> Self {
        Self::with_mark(value, 0)
    }

    /// A value whose last writer had the fence `mark`, as it was stored.
    pub const fn with_mark(value: T, mark: u64) -> Self {
        Self(Mutex::new(Marked { mark, value }))
    }

    /// The largest fence that has written, for storing.
    pub fn mark(&self) -> u64 {
        self.marked().mark
    }

    /// Changes the value, unless a later holder has done so before.
    ///
    /// # Errors
    ///
    /// `Lost` if a later fence has been seen; `Invalid` for a reader or permits.
    pub fn write<R>(&self, by: &Sequencer, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        if !matches!(by.mode, Mode::Exclusive | Mode::Write) {
            return Err(Error::invalid(format!("a holder in mode {} may not write", by.mode)));
        }
        let mut marked = self.marked();
        marked.admit(by)?;
        marked.mark = by.fence;
        Ok(change(&mut marked.value))
    }

    /// Looks at the value, unless a later writer has changed it.
    ///
    /// # Errors
    ///
    /// `Lost` if a later fence has written; `Invalid` for permits.
    pub fn read<R>(&self, by: &Sequencer, look: impl FnOnce(&T) -> R) -> Result<R> {
        if matches!(by.mode, Mode::Permits { .. }) {
            return Err(Error::invalid("permits cannot be fenced by a mark"));
        }
        let marked = self.marked();
        marked.admit(by)?;
        Ok(look(&marked.value))
    }

    fn marked(&self) -> MutexGuard<'_, Marked<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Marked<T> {
    fn admit(&self, by: &Sequencer) -> Result<()> {
        if by.fence >= self.mark {
            return Ok(());
        }
        let (fence, mark) = (by.fence, self.mark);
        Err(Error::new(
            ErrorKind::Lost,
            format!("refused: fence {fence} is older than {mark}, which has written since"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by(mode: Mode, fence: u64) -> Sequencer {
        Sequencer::new(mode, fence, "x")
    }

    #[test]
    fn equal_and_larger_fences_write_and_smaller_ones_do_not() {
        let value = Fenced::new(0);
        value.write(&by(Mode::Exclusive, 5), |v| *v += 1).unwrap();
        value.write(&by(Mode::Exclusive, 5), |v| *v += 1).unwrap();
        assert!(value.write(&by(Mode::Exclusive, 4), |v| *v += 1).unwrap_err().is_lost());
        value.write(&by(Mode::Write, 6), |v| *v += 1).unwrap();
        assert_eq!((value.mark(), value.read(&by(Mode::Read, 6), |v| *v).unwrap()), (6, 3));
    }

    #[test]
    fn readers_compare_and_do_not_raise_the_mark() {
        let value = Fenced::with_mark(0, 5);
        value.read(&by(Mode::Read, 9), |_| ()).unwrap();
        value.write(&by(Mode::Write, 7), |_| ()).unwrap();
        assert!(value.read(&by(Mode::Read, 6), |_| ()).unwrap_err().is_lost());
    }

    #[test]
    fn permits_and_writing_readers_are_refused() {
        let value = Fenced::new(0);
        let permits = by(Mode::Permits { take: 1, of: 2 }, 9);
        assert!(value.read(&permits, |_| ()).is_err() && value.write(&permits, |_| ()).is_err());
        assert!(value.write(&by(Mode::Read, 9), |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn sequencers_survive_a_header(name in "[^\\p{Cc}]{1,40}", fence: u64, take in 1..9_u32) {
            for mode in [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permits { take, of: 9 }] {
                let sequencer = Sequencer::new(mode, fence, name.as_str());
                let text = sequencer.to_string();
                prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
                prop_assert_eq!(text.parse::<Sequencer>().unwrap(), sequencer);
            }
        }

        #[test]
        fn no_text_makes_a_sequencer_panic(text in ".*") {
            let _ = text.parse::<Sequencer>();
        }
    }
}
