//! A resource that checks fences, shared by many processes of one machine.
//!
//! Its file is its state and its history at once: every access appends a line
//! under the file's lock, so the order of the lines is the order of effects.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::history::{Nanos, now};
use crate::lines;

/// One access, accepted or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// When.
    pub at: Nanos,
    /// By which process.
    pub pid: u32,
    /// Under which fence.
    pub fence: u64,
    /// What it did.
    pub kind: Kind,
    /// Whether the register let it.
    pub accepted: bool,
}

/// What an access did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Looked at the value, and closed the door to smaller fences.
    Read,
    /// Replaced the value.
    Write {
        /// The value on which the writer based its own.
        saw: u64,
        /// The new value.
        wrote: u64,
    },
}

/// A number that accepts an equal or larger fence and refuses a smaller one.
///
/// Reads raise the mark too: a writer that read before its successor did, and
/// writes after, would otherwise slip its update under the successor's feet.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// The state after the accesses up to an offset in the file.
#[derive(Debug, Default)]
struct Seen {
    offset: u64,
    mark: u64,
    value: u64,
}

impl Register {
    /// Opens or makes the register; it starts at 0 and has seen no fence.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        lines::open(&path)?;
        Ok(Self { path, seen: Mutex::default() })
    }

    /// The value, or `None` when the fence is too old.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn read(&self, fence: u64) -> io::Result<Option<u64>> {
        let (accepted, value) = self.access(fence, Kind::Read)?;
        Ok(accepted.then_some(value))
    }

    /// Replaces the value `saw` by `wrote`; says whether the fence was good.
    ///
    /// It does *not* compare `saw` with the value: the fence must be enough,
    /// and the checker finds out where it was not.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn write(&self, fence: u64, saw: u64, wrote: u64) -> io::Result<bool> {
        Ok(self.access(fence, Kind::Write { saw, wrote })?.0)
    }

    /// Every access so far, in the order in which they took effect.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn accesses(&self) -> io::Result<Vec<Access>> {
        Ok(lines::read(&self.path)?.0)
    }

    fn access(&self, fence: u64, kind: Kind) -> io::Result<(bool, u64)> {
        let mut seen = self.seen.lock().expect("no access panics");
        // The lock ends with the descriptor.
        let file = lines::open(&self.path)?;
        file.lock()?;
        seen.catch_up(&file)?;
        let accepted = fence >= seen.mark;
        let access = Access { at: now(), pid: std::process::id(), fence, kind, accepted };
        lines::append(&file, &access)?;
        Ok((accepted, seen.value))
    }
}

impl Seen {
    fn catch_up(&mut self, file: &File) -> io::Result<()> {
        let accesses: Vec<Access> = lines::read_on(file, &mut self.offset)?;
        for access in accesses.iter().filter(|access| access.accepted) {
            self.mark = self.mark.max(access.fence);
            if let Kind::Write { wrote, .. } = access.kind {
                self.value = wrote;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Register;

    #[test]
    fn equal_and_larger_fences_pass_and_smaller_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::open(folder.path().join("register")).unwrap();
        assert_eq!(register.read(5).unwrap(), Some(0));
        assert!(register.write(5, 0, 10).unwrap());
        assert!(!register.write(4, 10, 11).unwrap());
        assert_eq!(register.read(4).unwrap(), None);
        assert_eq!(register.read(6).unwrap(), Some(10));
        assert!(!register.write(5, 10, 12).unwrap(), "a read raises the mark");
        assert_eq!(register.accesses().unwrap().len(), 6);
    }

    #[test]
    fn accesses_of_many_threads_take_effect_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("register");
        thread::scope(|scope| {
            for fence in 1..=4 {
                // A register each, as processes would have.
                let register = Register::open(&path).unwrap();
                scope.spawn(move || (0..25).for_each(|_| assert!(register.read(fence).is_ok())));
            }
        });
        let accesses = Register::open(&path).unwrap().accesses().unwrap();
        assert_eq!(accesses.len(), 100);
        assert_eq!(crate::check::register(&accesses), Ok(()));
    }
}
