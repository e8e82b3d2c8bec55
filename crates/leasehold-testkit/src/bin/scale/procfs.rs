//! What `/proc` says of processes.

use std::fs;
use std::io;
use std::time::Duration;

use leasehold_testkit::contest::Checked;

/// Linux counts a hundred ticks a second wherever it runs.
const TICK: Duration = Duration::from_millis(10);

/// These processes and all that they have started.
pub(crate) fn families(roots: &[u32]) -> Checked<Vec<u32>> {
    let parents = parents()?;
    let (mut family, mut next) = (roots.to_vec(), 0);
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(family)
}

/// Every process with its parent.
fn parents() -> io::Result<Vec<(u32, u32)>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?))).collect())
}

/// The fields after the name, which may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// The processor time of these, with that of their children that have ended.
pub(crate) fn worked(pids: &[u32]) -> Checked<Duration> {
    let of = |pid: &u32| {
        let fields = stat(*pid).unwrap_or_default();
        let times = fields.get(11..15).unwrap_or_default();
        times.iter().filter_map(|ticks| ticks.parse::<u32>().ok()).sum::<u32>()
    };
    Ok(TICK * pids.iter().map(of).sum::<u32>())
}

/// Bytes of memory that are theirs alone, so that nothing is counted twice.
pub(crate) fn memory(pids: &[u32]) -> Checked<u64> {
    Ok(pids.iter().filter_map(|pid| status(&pid.to_string(), "RssAnon")).sum::<u64>() * 1024)
}

pub(crate) fn memory_of_this() -> Checked<u64> {
    Ok(status("self", "RssAnon").ok_or("/proc does not say how much memory is used")? * 1024)
}

pub(crate) fn threads_of_this() -> Checked<usize> {
    let threads = status("self", "Threads").ok_or("/proc does not say how many threads run")?;
    Ok(usize::try_from(threads)?)
}

fn status(process: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(crate) fn sockets_of_this() -> Checked<usize> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}
