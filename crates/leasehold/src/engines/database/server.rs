//! Real servers for unit tests, on ports of their own.

// Waits for real processes, in tests alone.
#![allow(clippy::disallowed_methods)]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::pool::Pool;
use crate::sql::Dialect;

/// Ends with its value, and with the thread that started it.
pub(super) struct DatabaseServer {
    child: Child,
    folder: TempDir,
    port: u16,
    product: Product,
}

#[derive(Clone, Copy, PartialEq)]
enum Product {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "mysql")]
    Mariadb,
}

impl DatabaseServer {
    /// One server of every family that is compiled in.
    pub(super) fn each() -> Vec<Self> {
        vec![
            #[cfg(feature = "postgres")]
            Self::start(Product::Postgres),
            #[cfg(feature = "mysql")]
            Self::start(Product::Mariadb),
        ]
    }

    #[cfg(feature = "postgres")]
    pub(super) fn postgres() -> Self {
        Self::start(Product::Postgres)
    }

    fn start(product: Product) -> Self {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        product.initialize(folder.path());
        let child = product.command(folder.path(), port).spawn().unwrap();
        let server = Self { child, folder, port, product };
        server.ready();
        server
    }

    pub(super) fn url(&self) -> String {
        let port = self.port;
        match self.product {
            #[cfg(feature = "postgres")]
            Product::Postgres => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            #[cfg(feature = "mysql")]
            Product::Mariadb => format!("mysql://root@127.0.0.1:{port}/mysql"),
        }
    }

    /// Ends it at once and starts it again, in the same place.
    pub(super) fn restart(&mut self) {
        self.kill();
        self.child = self.product.command(self.folder.path(), self.port).spawn().unwrap();
        self.ready();
    }

    fn ready(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.product.answers(self.port) {
            assert!(Instant::now() < end, "the server never listened");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DatabaseServer {
    /// Politely: a PostgreSQL that is killed leaves shared memory behind.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, self.product.farewell());
        let end = Instant::now() + Duration::from_secs(20);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
}

impl Product {
    const fn user(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::Mariadb => "mysql",
        }
    }

    /// On SIGTERM PostgreSQL would wait for its clients to leave.
    const fn farewell(self) -> rustix::process::Signal {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => rustix::process::Signal::INT,
            #[cfg(feature = "mysql")]
            Self::Mariadb => rustix::process::Signal::TERM,
        }
    }

    fn initialize(self, folder: &Path) {
        let owned = Command::new("chown").arg(self.user()).arg(folder).status();
        assert!(owned.unwrap().success() || !is_root(), "the server's folder is not its own");
        let mut command = match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let mut command = self.leashed(&postgres_program("initdb"), folder);
                command.args(["-D", "data", "-U", "postgres", "-A", "trust", "--no-sync"]);
                command
            }
            #[cfg(feature = "mysql")]
            Self::Mariadb => {
                let mut command = self.leashed("mariadb-install-db", folder);
                command.arg("--no-defaults").arg("--skip-test-db").arg("--skip-name-resolve");
                command.arg(format!("--datadir={}", folder.join("data").display()));
                command.arg(format!("--tmpdir={}", folder.display()));
                command.arg("--auth-root-authentication-method=normal");
                command
            }
        };
        let made = command.stderr(Stdio::piped()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn command(self, folder: &Path, port: u16) -> Command {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let mut command = self.leashed(&postgres_program("postgres"), folder);
                command.args(["-D", "data", "-c", "fsync=off", "-c", "unix_socket_directories="]);
                command.arg("-p").arg(port.to_string());
                command
            }
            #[cfg(feature = "mysql")]
            Self::Mariadb => {
                let mut command = self.leashed("mariadbd", folder);
                command.arg("--no-defaults").arg("--skip-name-resolve").arg("--skip-grant-tables");
                command.arg(format!("--datadir={}", folder.join("data").display()));
                command.arg(format!("--tmpdir={}", folder.display()));
                command.arg("--skip-networking=0").arg("--bind-address=127.0.0.1");
                command.arg("--socket=mysql.sock").arg(format!("--port={port}"));
                command
            }
        }
    }

    /// Databases refuse to run as root.
    fn leashed(self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            let user = self.user();
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").arg(program).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn answers(self, port: u16) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let mut command = Command::new(postgres_program("pg_isready"));
                command.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
                command.status().unwrap().success()
            }
            #[cfg(feature = "mysql")]
            Self::Mariadb => std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
        }
    }
}

/// Where Debian keeps the programs of a PostgreSQL server, newest first.
#[cfg(feature = "postgres")]
fn postgres_program(name: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|it| it.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

/// What suits the server behind a pool.
pub(super) fn suited<T>(pool: &Pool, postgres: T, mysql: T) -> T {
    match pool.family().dialect() {
        Dialect::Postgres => postgres,
        _ => mysql,
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
