//! A real server for unit tests, and clients of it.

// Waits for a real process, in tests alone.
#![allow(clippy::disallowed_methods)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Etcd;
use super::settings::EtcdSettings;
use crate::clock::Clock;
use crate::error::Result;
use crate::url::Url;

/// Ends with its value, and with the thread that started it.
pub(super) struct EtcdTestServer {
    child: Child,
    folder: TempDir,
    ports: [u16; 2],
}

impl EtcdTestServer {
    pub(super) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let ports = free_ports();
        let child = launch(&folder, ports);
        Self { child, folder, ports }
    }

    /// A client, once the server serves.
    pub(super) async fn client(&self, options: &str) -> Arc<Etcd> {
        self.client_as("", options).await.unwrap()
    }

    pub(super) async fn client_as(&self, login: &str, options: &str) -> Result<Arc<Etcd>> {
        let url = format!("etcd://{login}127.0.0.1:{}?{options}", self.ports[0]);
        let settings = EtcdSettings::from_url(&Url::parse(&url).unwrap()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match Etcd::open(&settings, Clock::System).await {
                Err(error) if error.is_retryable() && Instant::now() < end => {}
                opened => return opened.map(Arc::new),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What `etcdctl` says.
    pub(super) fn ctl(&self, args: &[&str]) -> String {
        let done = self.command(args).output().expect("apt-get install etcd-client");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
        text
    }

    /// How many requests for keys it has answered.
    pub(super) fn answered(&self) -> u64 {
        self.counted("grpc_server_handled_total", "etcdserverpb.KV")
    }

    /// How many bytes it has sent to its clients.
    pub(super) fn sent(&self) -> u64 {
        self.counted("etcd_network_client_grpc_sent_bytes_total", "")
    }

    /// What it counts by this name, with these words beside it.
    fn counted(&self, name: &str, words: &str) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[0])).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let is_it = |line: &&str| line.starts_with(name) && line.contains(words);
        let counts = text.lines().filter(is_it).filter_map(|line| line.rsplit_once(' '));
        // Large ones are written with an exponent.
        counts.map(|(_, count)| count.parse::<f64>().unwrap()).sum::<f64>() as u64
    }

    /// Turns users on: `root:secret`, and `op:pw`, who may read all of ours and write
    /// what begins with one of these.
    pub(super) fn turn_users_on(&self, writes: &[&str]) {
        self.ctl(&["user", "add", "root:secret"]);
        self.ctl(&["user", "grant-role", "root", "root"]);
        self.ctl(&["user", "add", "op:pw"]);
        self.ctl(&["role", "add", "op"]);
        self.ctl(&["role", "grant-permission", "op", "read", "leasehold/", "--prefix=true"]);
        for prefix in writes {
            self.ctl(&["role", "grant-permission", "op", "readwrite", prefix, "--prefix=true"]);
        }
        self.ctl(&["user", "grant-role", "op", "op"]);
        self.ctl(&["auth", "enable"]);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &format!("127.0.0.1:{}", self.ports[0])]);
        command.args(args);
        command
    }

    /// Has it stand still, or go on: `STOP`, `CONT`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(super) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn start_again(&mut self) {
        self.child = launch(&self.folder, self.ports);
    }
}

impl Drop for EtcdTestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(folder: &TempDir, [client, peer]: [u16; 2]) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "etcd", "--name", "one", "--unsafe-no-fsync"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("one={peer}"), "--log-level", "error", "--data-dir"])
        .arg(folder.path().join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("apt-get install etcd-server")
}

fn free_ports() -> [u16; 2] {
    let held = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
