//! Storms: a server forgets all leases at once.

use std::process::Command;

use leasehold_testkit::Znodes;
use leasehold_testkit::contest::Checked;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::inside::Inside;

type Strike = fn(&str) -> Checked;

const STORMS: [(&str, Strike); 4] =
    [("redis", flush), ("quorum", flush), ("etcd", revoke), ("zookeeper", end_sessions)];

/// Whether this engine's server can be told to forget.
pub(super) fn is_known(cell: &Inside) -> bool {
    find(cell).is_some()
}

fn find(cell: &Inside) -> Option<Strike> {
    STORMS.iter().find(|(name, _)| *name == cell.engine).map(|(_, strike)| *strike)
}

/// On every server of the cell.
pub(super) async fn strike(cell: &Inside) -> Checked {
    let Some(strike) = find(cell) else { return Ok(()) };
    let hosts = cell.hosts();
    tokio::task::spawn_blocking(move || hosts.iter().try_for_each(|host| strike(host))).await?
}

fn flush(host: &str) -> Checked {
    let mut connection = redis::Client::open(format!("redis://{host}"))?.get_connection()?;
    Ok(redis::cmd("FLUSHALL").exec(&mut connection)?)
}

/// All leases that the server has.
fn revoke(host: &str) -> Checked {
    let listed = etcdctl(host, &["lease", "list"])?;
    for lease in listed.lines().skip(1) {
        // One may have ended by itself.
        let _ = etcdctl(host, &["lease", "revoke", lease.trim()]);
    }
    Ok(())
}

fn etcdctl(host: &str, words: &[&str]) -> Checked<String> {
    let mut command = Command::new("etcdctl");
    command.args(["--endpoints", host]).args(words).env("ETCDCTL_API", "3");
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("etcdctl {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// All sessions that have nodes.
fn end_sessions(host: &str) -> Checked {
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(b"dump")?;
    let mut dump = String::new();
    stream.read_to_string(&mut dump)?;
    let owners = dump.split("Sessions with Ephemerals").nth(1).unwrap_or_default();
    let ids = owners.lines().filter_map(|line| line.trim().strip_prefix("0x")?.strip_suffix(':'));
    for id in ids {
        let session = u64::from_str_radix(id, 16)?.cast_signed();
        let _ = Znodes::end_session(host.parse()?, session);
    }
    Ok(())
}
