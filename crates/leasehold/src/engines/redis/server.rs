//! A real server for unit tests, on a socket of its own.

// Waits for a real process, in tests alone.
#![allow(clippy::disallowed_methods)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::Connection;
use tempfile::TempDir;

/// Ends with its value, and with the thread that started it.
pub(super) struct RedisTestServer {
    child: Child,
    folder: TempDir,
}

impl RedisTestServer {
    pub(super) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "redis-server", "--save", "", "--port", "0"])
            .args(["--unixsocket", "redis.sock", "--dir"])
            .arg(folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("apt-get install redis-server");
        Self { child, folder }
    }

    /// Where clients open it.
    pub(super) fn url(&self) -> String {
        format!("redis+unix:{}", self.folder.path().join("redis.sock").display())
    }

    /// A connection, once the server listens.
    pub(super) fn connection(&self) -> Connection {
        let url = format!("unix:{}", self.folder.path().join("redis.sock").display());
        let client = redis::Client::open(url).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(error) => assert!(Instant::now() < end, "it never listened: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RedisTestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
