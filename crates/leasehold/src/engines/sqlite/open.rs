//! Opening a store: how it is to be done, and what can fail. Every check comes
//! before the first write.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::Access;

use super::clients::beside;
use super::fault::{self, NOT_A_DATABASE, error, told};
use super::host::{FileSystem, HostFacts, file_system};
use super::schema::{self, APPLICATION, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::url::Url;

/// A store up to this size is read through when it is opened; a larger one
/// only by `examine`.
const PROBED: u64 = 4 * 1024 * 1024;

/// The oldest SQLite that can be trusted: from here on it notices that somebody
/// took its locks away, and does not lose what was written while the log began
/// anew.
const OLDEST: i32 = 3_051_003;

/// How to open a store.
#[derive(Clone, Debug)]
pub(crate) struct SqliteOptions {
    /// The file.
    pub(crate) path: PathBuf,
    /// Whether to create the folder of the file, for its owner alone.
    pub(crate) create_parent: bool,
    /// How long to wait for a store that others are busy with.
    pub(crate) busy: Duration,
    /// How often a waiter looks although nobody has called it.
    pub(crate) poll: Duration,
    /// The shortest time between two rounds of cleaning up; `Duration::MAX`
    /// for none.
    pub(crate) sweep: Duration,
    pub(super) host: HostFacts,
}

impl SqliteOptions {
    /// The defaults: 5 s for a busy store, a look every second.
    #[must_use]
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            create_parent: false,
            busy: Duration::from_secs(5),
            poll: Duration::from_secs(1),
            sweep: Duration::from_secs(1),
            host: HostFacts::here(),
        }
    }

    /// The path and options of `sqlite:PATH?busy=5s&poll=1s`.
    pub(crate) fn from_url(url: &Url) -> Result<Self> {
        // `sqlite:///a/b` is the same path as `sqlite:/a/b`.
        let path = url.rest.strip_prefix("//").unwrap_or(&url.rest);
        // Errors name the path, so a user and a password must not pass for one.
        let server = url.rest.starts_with("//")
            && path.split('/').next().is_some_and(|host| host.contains('@'));
        if path.is_empty() || server {
            return Err(Error::invalid(
                "sqlite: needs the path of its file, and no server: sqlite:/var/lib/app.db",
            ));
        }
        let mut options = Self::new(path);
        options.busy = url.options.duration("busy")?.unwrap_or(options.busy);
        options.poll = url.options.duration("poll")?.unwrap_or(options.poll);
        options.create_parent = url.options.flag("create_parent")?;
        Ok(options)
    }

    pub(super) fn sweeps(&self) -> bool {
        self.sweep < Duration::MAX
    }
}

/// Checks the path and the file there, if any, without changing anything.
pub(super) fn check(options: &SqliteOptions) -> Result<()> {
    let path = &options.path;
    check_library(rusqlite::version_number(), rusqlite::version(), path)?;
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

/// A program may be linked with another SQLite than ours.
pub(super) fn check_library(number: i32, version: &str, path: &Path) -> Result<()> {
    if number >= OLDEST {
        return Ok(());
    }
    let message = format!(
        "this program was linked with SQLite {version}, where a file that is opened twice in one \
         process may lose its locks: link 3.51.3 or later, or the one that comes with the \
         library (unset LIBSQLITE3_SYS_USE_PKG_CONFIG)"
    );
    Err(error(ErrorKind::Unsupported, message, path))
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

/// Looks at the first page alone: not at the log, so that nothing is made beside
/// the database of another.
///
/// Through SQLite, because the system takes every lock of a process on a file
/// away when the process closes the file, however it had opened it. SQLite waits
/// with that; whoever opens the file on his own takes the locks of a store that
/// is open in the same process.
fn check_header(path: &Path) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let found = Connection::open_with_flags(frozen(path), flags).and_then(|db| {
        let number = |sql| db.query_row(sql, [], |row| row.get::<_, i32>(0));
        Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?))
    });
    let (application, version) = found.map_err(|cause| match cause.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            denied("the file cannot be read", path).caused_by(cause)
        }
        Some(ErrorCode::NotADatabase) => error(ErrorKind::Invalid, NOT_A_DATABASE, path),
        _ => damaged(path).caused_by(cause),
    })?;
    if application != APPLICATION {
        let message = "this is the database of another application, and it was left as it is: \
             locks need a file of their own, so choose another path";
        return Err(error(ErrorKind::Invalid, message, path));
    }
    match version {
        VERSION => Ok(()),
        other => Err(other_layout(other, path)),
    }
}

fn other_layout(found: i32, path: &Path) -> Error {
    let instead = if found > VERSION {
        "update the program, or choose another path"
    } else {
        "use the release that made it, choose another path, or stop all its users and move the \
         file away (what is held and recorded in it goes with it)"
    };
    let message = format!("the store has layout {found}, this program knows {VERSION}: {instead}");
    error(ErrorKind::Unsupported, message, path)
}

/// A path as the URI of a file that nobody changes. Only then SQLite looks for
/// nothing beside it.
fn frozen(path: &Path) -> String {
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-') {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02x}"));
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Reads a store through, without the right to write to it.
fn probe(path: &Path, size: u64) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let check = if size <= PROBED { "PRAGMA quick_check(1)" } else { "PRAGMA schema_version" };
    let found = Connection::open_with_flags(path, flags).and_then(|db| {
        db.busy_timeout(Duration::from_secs(5))?;
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
    create(path).map_err(|e| denied("the file cannot be created", path).caused_by(e))?;
    let (db, mode) = prepare(options).map_err(|cause| told(&cause, path))?;
    // Another release may have made the tables since they were looked for.
    let found = db.query_row("PRAGMA user_version", [], |row| row.get(0));
    match (found.map_err(|cause| told(&cause, path))?, &*mode) {
        (VERSION, "wal") => Ok(db),
        (VERSION, other) => {
            let message = format!(
                "the store cannot use a write-ahead log here (it stays in mode {other}): \
                 put it on an ordinary local file system"
            );
            Err(fault::error(ErrorKind::Unsupported, message, path))
        }
        (found, _) => Err(other_layout(found, path)),
    }
}

/// A file that is there is not touched: to close it would take its locks away.
/// One that is made here is nobody's yet; the gate keeps the next one out.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn prepare(options: &SqliteOptions) -> rusqlite::Result<(Connection, String)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&options.path, flags)?;
    db.busy_timeout(options.busy)?;
    db.set_prepared_statement_cache_capacity(64);
    schema::create(&db)?;
    let mode = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    // The thread of the store folds the log; this is only in case it cannot.
    db.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; \
         PRAGMA wal_autocheckpoint = 8000;",
    )?;
    Ok((db, mode))
}
