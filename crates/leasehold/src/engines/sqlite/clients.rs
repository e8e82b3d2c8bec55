//! The folder where every client of a store shows that it lives.
//!
//! A client holds an exclusive lock on its file for as long as it runs; the
//! kernel lets go of it however the process ends. Whoever can lock the file
//! of another client knows that the other one is dead.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::claim::id::random_bits;
use crate::engines::kit::lifeline::Lifeline;

/// An opened engine, as others know it; 0 is nobody.
pub(super) type ClientId = u64;

/// The longest path that surely fits into the address of a socket.
const SOCKET_PATH_MAX: usize = 100;

/// A random number that SQLite can store, and not 0.
pub(super) fn fresh_id() -> u64 {
    let bits = random_bits().to_le_bytes();
    let low = u64::from_le_bytes(*bits.first_chunk().unwrap_or(&[1; 8]));
    (low >> 1).max(1)
}

/// `path` with `suffix` added to its last part.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut text = OsString::from(path);
    text.push(suffix);
    PathBuf::from(text)
}

/// What can be told of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientLiveness {
    Alive,
    Dead,
    /// Its file is not there or not ours to open: its ttl will tell.
    Unclear,
}

/// The folder of all clients.
#[derive(Debug)]
pub(super) struct ClientRegistry {
    dir: PathBuf,
    /// Kept open for sockets whose path would be too long.
    folder: File,
}

impl ClientRegistry {
    /// Opens the folder beside `db`, for its owner alone if it is new.
    pub(super) fn open(db: &Path) -> io::Result<Self> {
        let dir = beside(db, "-clients");
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = File::open(&dir)?;
        Ok(Self { dir, folder })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn lock_path(&self, client: ClientId) -> PathBuf {
        self.dir.join(format!("{client:016x}.lock"))
    }

    fn socket_file(&self, client: ClientId) -> PathBuf {
        self.dir.join(format!("{client:016x}.sock"))
    }

    /// The address of a client's socket, short enough for the kernel.
    pub(super) fn socket(&self, client: ClientId) -> PathBuf {
        let plain = self.socket_file(client);
        if plain.as_os_str().len() <= SOCKET_PATH_MAX || !cfg!(target_os = "linux") {
            return plain;
        }
        let folder = self.folder.as_raw_fd();
        PathBuf::from(format!("/proc/self/fd/{folder}/{client:016x}.sock"))
    }

    /// Whether a client still runs.
    pub(super) fn liveness(&self, client: ClientId) -> ClientLiveness {
        // A shared lock, so that two who look at once do not see each other.
        match File::open(self.lock_path(client)).map(|file| file.try_lock_shared()) {
            Ok(Ok(())) => ClientLiveness::Dead,
            Ok(Err(TryLockError::WouldBlock)) => ClientLiveness::Alive,
            Ok(Err(TryLockError::Error(_))) | Err(_) => ClientLiveness::Unclear,
        }
    }

    /// Everyone who has a file here, dead or alive.
    pub(super) fn clients(&self) -> io::Result<Vec<ClientId>> {
        let mut clients = Vec::new();
        for entry in self.dir.read_dir()? {
            let file = entry?.file_name();
            let id = file.to_str().and_then(|text| text.strip_suffix(".lock"));
            clients.extend(id.and_then(|hex| ClientId::from_str_radix(hex, 16).ok()));
        }
        Ok(clients)
    }

    /// Removes what a dead client left; a living one is never touched.
    pub(super) fn clear(&self, client: ClientId) {
        let path = self.lock_path(client);
        let Ok(file) = File::open(&path) else { return };
        if file.try_lock_shared().is_ok() && same_file(&file, &path) {
            self.unlink(client);
        }
    }

    /// The socket first: a socket without a lock file would belong to nobody.
    fn unlink(&self, client: ClientId) {
        let _ = std::fs::remove_file(self.socket_file(client));
        let _ = std::fs::remove_file(self.lock_path(client));
    }

    /// Enters a new client.
    pub(super) fn enter(&self) -> io::Result<ClientLock> {
        loop {
            let client = fresh_id();
            let path = self.lock_path(client);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).mode(0o644).open(&path)?;
            file.lock()?;
            // Someone who cleaned up may have taken it for a dead client's.
            if same_file(&file, &path) {
                return Ok(ClientLock { client, _lifeline: Lifeline::of(&file), _lock: file });
            }
        }
    }

    /// Takes a client off the list that leaves in good order.
    pub(super) fn leave(&self, client_lock: ClientLock) {
        self.unlink(client_lock.client);
        drop(client_lock);
    }

    /// Whether the file that proves a client's life is where others look.
    pub(super) fn shows(&self, client: ClientId) -> bool {
        self.lock_path(client).exists()
    }
}

/// A client's own lock; gone with the process, and with those who keep its
/// lifeline.
#[derive(Debug)]
pub(super) struct ClientLock {
    pub(super) client: ClientId,
    _lifeline: Lifeline,
    _lock: File,
}

/// Whether the open file is still the one at `path`.
fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
