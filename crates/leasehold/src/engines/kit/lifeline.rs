//! Lifelines: what the kernel takes from a dead process, and by which others
//! know that it has died.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those of all clients of this process, numbered.
static ALL: Mutex<(u64, Vec<(u64, OwnedFd)>)> = Mutex::new((0, Vec::new()));

/// The files whose closing tells others that this process has died, and that
/// its leases are free. The sqlite engine has them; elsewhere a lease ends with
/// its ttl, or with a connection.
///
/// A second process that is to end what this one has started keeps them open.
/// Then the death of this process alone frees nothing: its leases end when the
/// other one has closed them too, or with their ttl.
#[must_use]
pub fn lifelines() -> Vec<OwnedFd> {
    all().1.iter().filter_map(|(_, file)| file.try_clone().ok()).collect()
}

fn all() -> MutexGuard<'static, (u64, Vec<(u64, OwnedFd)>)> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One that is listed for as long as it is kept.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "for engines that notice a death"))]
#[derive(Debug)]
pub(in crate::engines) struct Lifeline(u64);

#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "for engines that notice a death"))]
impl Lifeline {
    /// Of an open file. Without a spare descriptor there is none: the file
    /// itself still ends with the process.
    pub(in crate::engines) fn of(file: &impl AsFd) -> Self {
        let (last, listed) = &mut *all();
        *last += 1;
        let copy = file.as_fd().try_clone_to_owned().ok();
        listed.extend(copy.map(|copy| (*last, copy)));
        Self(*last)
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        all().1.retain(|(number, _)| *number != self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lifeline_is_listed_for_as_long_as_it_is_kept() {
        let line = Lifeline::of(&File::open("/dev/null").unwrap());
        let number = line.0;
        let is_listed = || all().1.iter().any(|(other, _)| *other == number);
        assert!(is_listed() && !lifelines().is_empty());
        drop(line);
        assert!(!is_listed());
    }
}
