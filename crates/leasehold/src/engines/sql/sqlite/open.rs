//! Opening a store: every check that can fail comes before the first write.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::Access;

use super::SqliteOptions;
use super::fault::{self, NOT_A_DATABASE, error, told};
use super::host::{FileSystem, file_system};
use super::roster::beside;
use super::schema::{APPLICATION, VERSION};
use crate::error::{Error, ErrorKind, Result};

/// A store up to this size is read through when it is opened; a larger one
/// only by `examine`.
const PROBED: u64 = 4 * 1024 * 1024;

/// Where SQLite keeps these numbers in a file's first page.
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;

/// Checks the path and the file there, if any, without changing anything.
pub(super) fn check(options: &SqliteOptions) -> Result<()> {
    let path = &options.path;
    check_folder(path, options.create_parent)?;
    let meta = match path.metadata() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(denied("the file cannot be looked at", path).caused_by(cause)),
        Ok(meta) => meta,
    };
    check_kind(path, &meta)?;
    // An empty file is one that was created and not written yet.
    if meta.len() > 0 {
        check_header(path)?;
        probe(path, meta.len())?;
    }
    Ok(())
}

/// The folder that a path is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check_folder(path: &Path, create: bool) -> Result<()> {
    let dir = folder_of(path);
    if create && !dir.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|e| denied("the folder cannot be created", dir).caused_by(e))?;
    }
    let meta = dir.metadata().map_err(|cause| {
        let message = format!("there is no folder {}: create it first", dir.display());
        error(ErrorKind::Invalid, message, path).caused_by(cause)
    })?;
    if !meta.is_dir() {
        let message = format!("{} is not a folder: choose another path", dir.display());
        return Err(error(ErrorKind::Invalid, message, path));
    }
    if !writable(dir, &meta) {
        return Err(denied(
            "the folder is read-only: the store needs files beside it, so give this user \
             write access to the folder",
            path,
        ));
    }
    check_file_system(dir, path)
}

fn check_file_system(dir: &Path, path: &Path) -> Result<()> {
    match file_system(dir) {
        Ok(FileSystem::Network(kind)) => Err(error(
            ErrorKind::Unsupported,
            format!(
                "the store would be on {kind}, where locks do not hold between hosts: \
                 put it on a local disk, or use an engine with a server"
            ),
            path,
        )),
        Ok(_) => Ok(()),
        Err(cause) => Err(denied("the file system cannot be looked at", path).caused_by(cause)),
    }
}

fn check_kind(path: &Path, meta: &Metadata) -> Result<()> {
    if !meta.is_file() {
        let message = "this is not a file: the path of a store names the file itself";
        return Err(error(ErrorKind::Invalid, message, path));
    }
    if !writable(path, meta) {
        let message = "the file is read-only: give this user write access, or choose another path";
        return Err(denied(message, path));
    }
    Ok(())
}

/// Whether we may write. A file without any write permission is meant to stay
/// as it is, even where root could write.
fn writable(path: &Path, meta: &Metadata) -> bool {
    let marked = meta.permissions().mode() & 0o222 != 0;
    marked && rustix::fs::access(path, Access::WRITE_OK | Access::READ_OK).is_ok()
}

fn denied(message: &str, path: &Path) -> Error {
    error(ErrorKind::Denied, message, path)
}

/// Looks at the first bytes, before SQLite does.
fn check_header(path: &Path) -> Result<()> {
    let mut head = Vec::with_capacity(100);
    let read = File::open(path).and_then(|file| file.take(100).read_to_end(&mut head));
    read.map_err(|cause| denied("the file cannot be read", path).caused_by(cause))?;
    if head.len() < 100 || !head.starts_with(b"SQLite format 3\0") {
        return Err(error(ErrorKind::Invalid, NOT_A_DATABASE, path));
    }
    if number(&head, APPLICATION_ID) != APPLICATION {
        let message = "this is the database of another application, and it was left as it is: \
             locks need a file of their own, so choose another path";
        return Err(error(ErrorKind::Invalid, message, path));
    }
    match number(&head, USER_VERSION) {
        1..=VERSION => Ok(()),
        newer => Err(error(
            ErrorKind::Unsupported,
            format!(
                "the store has layout {newer}, this program knows {VERSION}: \
                 update the program, or choose another path"
            ),
            path,
        )),
    }
}

fn number(head: &[u8], from: usize) -> i32 {
    let bytes = head.get(from..).and_then(|rest| rest.first_chunk()).copied();
    i32::from_be_bytes(bytes.unwrap_or_default())
}

/// Reads a store through, without the right to write to it.
fn probe(path: &Path, size: u64) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let check = if size <= PROBED { "PRAGMA quick_check(1)" } else { "PRAGMA schema_version" };
    let found = Connection::open_with_flags(path, flags).and_then(|db| {
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        db.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
        db.query_row(check, [], |row| row.get_ref(0).map(|v| v.as_str().unwrap_or("ok").to_owned()))
    });
    match found.map_err(|cause| damaged(path).caused_by(cause))? {
        ok if ok == "ok" => Ok(()),
        wrong => Err(damaged(path).caused_by(wrong)),
    }
}

fn damaged(path: &Path) -> Error {
    error(
        ErrorKind::Unexpected,
        "the store is damaged, and it was left as it is: stop all its users, move the file \
         and its -wal away, keep them for a look, and start with a new one",
        path,
    )
}

/// The side file that writers queue at; see `store.rs`.
pub(super) fn gate(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(beside(path, "-gate"));
    file.map_err(|cause| denied("the gate file cannot be opened", path).caused_by(cause))
}

/// Opens the file for good, creating it for its owner alone.
pub(super) fn connect(options: &SqliteOptions) -> Result<Connection> {
    let path = &options.path;
    let mut file = OpenOptions::new();
    file.read(true).write(true).create(true).truncate(false).mode(0o600);
    file.open(path).map_err(|e| denied("the file cannot be created", path).caused_by(e))?;
    prepare(options).map_err(|cause| told(&cause, path)).and_then(|(db, mode)| match &*mode {
        "wal" => Ok(db),
        other => {
            let message = format!(
                "the store cannot use a write-ahead log here (it stays in mode {other}): \
                 put it on an ordinary local file system"
            );
            Err(fault::error(ErrorKind::Unsupported, message, path))
        }
    })
}

fn prepare(options: &SqliteOptions) -> rusqlite::Result<(Connection, String)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&options.path, flags)?;
    db.busy_timeout(options.busy)?;
    db.set_prepared_statement_cache_capacity(64);
    super::schema::create(&db)?;
    let mode = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    // The thread of the store folds the log; this is only in case it cannot.
    db.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 8000;",
    )?;
    Ok((db, mode))
}
