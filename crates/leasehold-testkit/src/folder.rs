//! Folders for the files of servers and stores.

use std::io;
use std::path::Path;

use tempfile::{Builder, TempDir};

/// Memory that looks like a disk.
const MEMORY: &str = "/dev/shm";
/// Less would be too little for the servers of a whole run.
const ROOM: u64 = 4 << 30;

/// A folder in memory, where the system has enough of it; else on disk.
///
/// Servers and stores that run side by side wait for a disk longer than for each
/// other, and a disk that is busy with something else looks like a server that
/// does not answer. A killed process leaves its files as they are in both; what a
/// power cut would leave is not what the tests ask. Tests that are killed leave it
/// behind, there as on a disk: `leasehold-*` may be removed when none run.
pub(crate) fn quick_folder() -> io::Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix("leasehold-");
    if has_room(Path::new(MEMORY)) {
        return builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir());
    }
    builder.tempdir()
}

fn has_room(place: &Path) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) > ROOM)
}
