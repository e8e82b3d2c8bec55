//! A PostgreSQL: the user's, or one of our own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use crate::Outcome;

const LOOK: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

pub(crate) struct Server {
    url: String,
    own: Option<(Child, TempDir)>,
}

impl Server {
    pub(crate) fn find() -> Outcome<Self> {
        match std::env::var("LEASEHOLD_URL") {
            Ok(url) => Ok(Self { url, own: None }),
            Err(_) => start().map_err(|why| {
                format!("no PostgreSQL of our own: {why}; set LEASEHOLD_URL to one of yours").into()
            }),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.own {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start() -> Outcome<Server> {
    let folder = tempfile::tempdir()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    // It refuses to run as root.
    let _ = Command::new("chown").arg("postgres").arg(folder.path()).output();
    let made = program("initdb", folder.path())
        .args(["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync"])
        .status()?;
    if !made.success() {
        return Err("initdb failed".into());
    }
    let child = program("postgres", folder.path())
        .args(["-D", "data", "-c", "fsync=off", "-c", "unix_socket_directories="])
        .args(["-p", &port.to_string()])
        .spawn()?;
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let server = Server { url, own: Some((child, folder)) };
    for _ in 0..LOOKS {
        let mut ready = Command::new(find("pg_isready"));
        if ready.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]).status()?.success() {
            return Ok(server);
        }
        sleep(LOOK);
    }
    Err("it does not listen".into())
}

/// A program of the server, which ends with us.
fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg("--").arg(find(name)).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Where Debian keeps the programs of a server.
fn find(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|it| it.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().unwrap_or_else(|| name.into())
}
