//! What an etcd is made of.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::binary::Binary;
use super::member::Member;
use super::plan::leashed;
use super::redis::Extras;
use super::{ServerError, certificates};

const ETCD: Binary = Binary { program: "etcd", versions: None, package: "etcd-server" };
const ETCDCTL: Binary = Binary { program: "etcdctl", versions: None, package: "etcd-client" };
/// The shortest lease is one and a half elections, in whole seconds: one second.
const TEMPO: [&str; 2] = ["--heartbeat-interval=100", "--election-timeout=600"];

/// For clients, for the other members, and one in the clear, where it says how
/// it is.
pub(super) const PORTS: usize = 3;

pub(super) fn prepare(folder: &Path, extras: &Extras) -> Result<(), ServerError> {
    if extras.tls { certificates::make(folder) } else { Ok(()) }
}

pub(super) fn command(
    folder: &Path,
    ports: &[u16],
    extras: &Extras,
    member: Option<&Member>,
) -> Result<Command, ServerError> {
    let alone = Member { at: 0, ports: vec![ports.to_vec()] };
    let member = member.unwrap_or(&alone);
    let (client, peer) = (format!("{}://127.0.0.1:{}", web(extras), ports[0]), peer(ports));
    let mut command = leashed(&ETCD)?;
    command.arg("--name").arg(name(member.at)).arg("--data-dir").arg(folder.join("data"));
    command.args(TEMPO);
    command.arg(format!("--listen-client-urls={client}"));
    command.arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--listen-peer-urls={peer}"));
    command.arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster={}", cluster(member)));
    command.arg(format!("--listen-metrics-urls=http://127.0.0.1:{}", ports[2]));
    if extras.tls {
        command.arg("--cert-file").arg(folder.join("server.pem"));
        command.arg("--key-file").arg(folder.join("server.key"));
    }
    // Debian builds etcd for machines that it calls unsupported.
    command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
    Ok(command)
}

/// How one member knows another.
pub(super) fn name(at: usize) -> String {
    format!("member{at}")
}

fn peer(ports: &[u16]) -> String {
    format!("http://127.0.0.1:{}", ports[1])
}

fn cluster(member: &Member) -> String {
    let each = member.ports.iter().enumerate();
    each.map(|(at, ports)| format!("{}={}", name(at), peer(ports))).collect::<Vec<_>>().join(",")
}

const fn web(extras: &Extras) -> &'static str {
    if extras.tls { "https" } else { "http" }
}

/// From now on it lets nobody in without the password.
pub(super) fn lock_up(addr: SocketAddr, folder: &Path, extras: &Extras) -> Result<(), ServerError> {
    let Some((user, password)) = &extras.login else { return Ok(()) };
    let open = Extras { login: None, ..extras.clone() };
    let login = format!("{user}:{password}");
    tell(addr, folder, &open, &["user", "add", &login])?;
    tell(addr, folder, &open, &["user", "grant-role", user, "root"])?;
    tell(addr, folder, &open, &["auth", "enable"]).map(drop)
}

/// Whether the member at `addr` says that it is the leader.
pub(super) fn leads(addr: SocketAddr, folder: &Path, extras: &Extras) -> bool {
    let status =
        tell(addr, folder, extras, &["--command-timeout=1s", "endpoint", "status", "-w", "json"]);
    let status = status.ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let member = status.as_ref().and_then(|all| all.get(0)?.get("Status"));
    let leader = member.and_then(|it| it.get("leader")?.as_u64()).filter(|id| *id != 0);
    leader.is_some_and(|id| {
        member.and_then(|it| it.get("header")?.get("member_id")?.as_u64()) == Some(id)
    })
}

/// Runs `etcdctl` with these words to its end, and gives back what it says.
pub(super) fn tell(
    addr: SocketAddr,
    folder: &Path,
    extras: &Extras,
    words: &[&str],
) -> Result<String, ServerError> {
    let output = etcdctl(&addr.to_string(), folder, extras)?.args(words).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(ServerError(format!("etcdctl {words:?} failed: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `etcdctl` for these hosts, before its first word. It dies with this process.
pub(super) fn etcdctl(hosts: &str, folder: &Path, extras: &Extras) -> Result<Command, ServerError> {
    let mut command = leashed(&ETCDCTL)?;
    let urls: Vec<String> =
        hosts.split(',').map(|host| format!("{}://{host}", web(extras))).collect();
    command.arg("--endpoints").arg(urls.join(",")).env("ETCDCTL_API", "3");
    if extras.tls {
        command.arg("--cacert").arg(folder.join("ca.pem"));
    }
    if let Some((user, password)) = &extras.login {
        command.arg(format!("--user={user}:{password}"));
    }
    command.current_dir(folder).stdin(Stdio::null());
    Ok(command)
}
