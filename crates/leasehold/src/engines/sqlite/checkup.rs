//! What `doctor` has to say about a store.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clients::{ClientLiveness, beside};
use super::command::StoreCommand;
use super::fault::Trial;
use super::host::{FileSystem, file_system};
use super::schema;
use super::transaction::StoreTransaction;
use crate::engine::{Finding, Severity};

/// A log larger than this was not folded into the file for a long time.
const WAL_MAX: u64 = 64 * 1024 * 1024;
/// A file of several million names; its users wait longer for it than they did.
const FILE_MAX: u64 = 1024 * 1024 * 1024;
/// The wall clock is set by hand, or by a machine that was far off.
const JUMP: Duration = Duration::from_secs(10);
/// Each has a thread and six open files in its process, of which 1,024 are what most
/// systems allow.
const CLIENTS_MAX: usize = 100;

#[derive(Debug)]
pub(super) struct Examine {
    pub(super) path: PathBuf,
}

impl StoreCommand for Examine {
    type Answer = Vec<Finding>;

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut StoreTransaction<'_>) -> Trial<Vec<Finding>> {
        let mut found = Vec::new();
        found.extend(integrity(transaction)?);
        found.extend(disk(&self.path));
        found.extend(log(&self.path));
        found.extend(size(transaction)?);
        found.extend(access(&self.path));
        found.extend(access(transaction.clients.dir()));
        found.extend(clocks(transaction)?);
        found.extend(clients(transaction));
        Ok(found)
    }
}

fn integrity(transaction: &StoreTransaction<'_>) -> Trial<Option<Finding>> {
    let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let verdict = transaction.db.query_row("PRAGMA quick_check(1)", [], read)?;
    Ok((verdict != "ok").then(|| {
        Finding::new(
            Severity::Danger,
            format!("the file is damaged: {verdict}"),
            "stop all users of this store, move the file and its -wal away and start anew",
        )
    }))
}

fn disk(path: &Path) -> Option<Finding> {
    let (severity, message) = match file_system(path) {
        Ok(FileSystem::Local) => return None,
        Ok(FileSystem::Network(kind)) => (Severity::Danger, format!("the store is on {kind}")),
        Ok(FileSystem::Fuse) => {
            (Severity::Warning, "the store is on a file system in user space".to_owned())
        }
        Err(cause) => (Severity::Warning, format!("the file system cannot be told: {cause}")),
    };
    Some(Finding::new(severity, message, "put the store on a local disk: its locks must be real"))
}

fn log(path: &Path) -> Option<Finding> {
    let size = beside(path, "-wal").metadata().map_or(0, |meta| meta.len());
    (size > WAL_MAX).then(|| {
        Finding::new(
            Severity::Warning,
            format!("the write-ahead log has grown to {} MiB", size / (1024 * 1024)),
            "look for a program that keeps a read transaction open on this file, such as a \
             backup or a database browser",
        )
    })
}

fn size(transaction: &StoreTransaction<'_>) -> Trial<Option<Finding>> {
    let number =
        |pragma| transaction.db.query_row(pragma, [], |row| row.get::<_, u32>(0).map(u64::from));
    let page = number("PRAGMA page_size")?;
    let (all, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
    Ok(large(page * all, page * free))
}

fn large(size: u64, free: u64) -> Option<Finding> {
    (size > FILE_MAX).then(|| {
        let (size, free) = (size / (1024 * 1024), free / (1024 * 1024));
        Finding::new(
            Severity::Warning,
            format!("the file has grown to {size} MiB, of which {free} MiB are free inside"),
            "what is free is used again; to give it back, stop all users of the store and run \
             VACUUM; if little is free, look with ls --all which names and records fill it",
        )
    })
}

fn access(path: &Path) -> Option<Finding> {
    let mode = path.metadata().ok()?.permissions().mode() & 0o777;
    (mode & 0o007 != 0).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{} is open to every user of this host (mode {mode:o})", path.display()),
            "take these permissions away: whoever can read the store learns the secrets of its \
             leases, and can release them",
        )
    })
}

fn clocks(transaction: &StoreTransaction<'_>) -> Trial<Option<Finding>> {
    let here = schema::offset(transaction.now);
    let known = schema::known_offset(transaction.db)?.unwrap_or(here);
    let jump = Duration::from_micros(here.abs_diff(known));
    Ok((jump > JUMP).then(|| {
        Finding::new(
            Severity::Note,
            format!("the wall clock was moved by {jump:.0?}"),
            "nothing has to be done: leases run on the clock since boot; only a name that was \
             kept closed over a restart may open early or late",
        )
    }))
}

fn clients(transaction: &StoreTransaction<'_>) -> Vec<Finding> {
    let all = transaction.clients.clients().unwrap_or_default();
    let dead = all
        .iter()
        .filter(|client| transaction.clients.liveness(**client) == ClientLiveness::Dead)
        .count();
    let mut found = vec![crowd(all.len(), dead)];
    if !transaction.clients.shows(transaction.client) {
        found.push(Finding::new(
            Severity::Warning,
            "someone has removed the lock file of this process",
            "keep cleaners of temporary files away from the store; until this process is started \
             again, its death will be noticed only by the ttl",
        ));
    }
    found
}

fn crowd(all: usize, dead: usize) -> Finding {
    let count = format!("clients: {all}, of them dead: {dead}");
    if all - dead > CLIENTS_MAX {
        let advice = "each takes a thread and six open files of its process: where one process \
                      has many of them, open the store once there, clone the handle, and look at \
                      `ulimit -n`";
        return Finding::new(Severity::Warning, count, advice);
    }
    let advice =
        "nothing has to be done: the dead are cleared away when their leases are asked for";
    Finding::new(Severity::Note, count, advice)
}

#[cfg(test)]
mod tests {
    use super::{CLIENTS_MAX, FILE_MAX, crowd, large};
    use crate::engine::Severity;

    #[test]
    fn a_large_file_says_how_much_of_it_is_free() {
        assert!(large(FILE_MAX, FILE_MAX).is_none());
        let found = large(FILE_MAX + 1, FILE_MAX / 2).unwrap();
        assert!(found.message.contains("1024 MiB, of which 512 MiB are free"), "{found:?}");
    }
    #[test]
    fn only_clients_that_live_take_threads_and_files() {
        assert_eq!(crowd(CLIENTS_MAX + 50, 50).severity, Severity::Note);
        let found = crowd(CLIENTS_MAX + 51, 50);
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.advice.contains("ulimit -n"), "{found:?}");
    }
}
