//! The processes that a process has started, directly or not.
//!
//! Whoever adopts orphans (`adopt`) is the ancestor of all of them for good: a
//! process that leaves its group, its session or its parent stays below it.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait,
};

/// A child that has ended or was stopped.
pub(crate) type Change = (Pid, WaitStatus);

/// Becomes the parent of every orphan among those below this process.
#[cfg(target_os = "linux")]
pub(crate) fn adopt() {
    use rustix::process::{getpid, set_child_subreaper};
    // Kernels older than 3.4 cannot; then the group is all that is found.
    let _ = set_child_subreaper(Some(getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn adopt() {}

/// The next change among our children; `Err` if there are none.
pub(crate) fn next_change() -> Result<Option<Change>, ()> {
    match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        Ok(change) => Ok(change),
        Err(Errno::CHILD) => Err(()),
        Err(_) => Ok(None),
    }
}

/// Sends a signal to `group`, and to everyone else below this process but
/// `spared`. What has ended meanwhile needs none.
pub(crate) fn signal(group: Pid, spared: Option<Pid>, signal: Signal) {
    let _ = kill_process_group(group, signal);
    for process in below(rustix::process::getpid()) {
        let hit = process.group == group.as_raw_nonzero().get();
        if !hit && Some(process.id) != spared {
            let _ = kill_process(process.id, signal);
        }
    }
}

/// A process that runs.
struct Process {
    id: Pid,
    parent: i32,
    group: i32,
}

/// Everyone below a process. One whose parent ends while we look may be missed;
/// the next look finds it, as a child of whoever adopts.
fn below(root: Pid) -> Vec<Process> {
    let mut others = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|it| it.parent == parent);
        others = rest;
        parents.extend(children.iter().map(|it: &Process| it.id.as_raw_nonzero().get()));
        found.extend(children);
    }
    found
}

fn all() -> Vec<Process> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|it| it.file_name());
    let ids = names.filter_map(|name| name.to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

/// From `/proc/ID/stat`: id, name in parentheses, state, parent, group.
fn process(id: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // A name may have parentheses and spaces of its own.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let dead = matches!(fields.next()?, "Z" | "X");
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (!dead).then_some(Process { id: Pid::from_raw(id)?, parent, group })
}
