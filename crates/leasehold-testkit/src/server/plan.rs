//! What differs between the servers: program, arguments, ready check, URL.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, geteuid};

use super::ServerError;
use super::binary::Binary;
use super::mariadb;
use super::redis::Extras;
use super::spawn::LEASHED;

const REDIS: Binary = Binary { program: "redis-server", versions: None, package: "redis-server" };
const INITDB: Binary = postgres_binary("initdb");
const POSTGRES: Binary = postgres_binary("postgres");
const ETCD: Binary = Binary { program: "etcd", versions: None, package: "etcd-server" };
/// Debian keeps the tie to the parent's death in an essential package.
const SETPRIV: Binary = Binary { program: LEASHED[0], versions: None, package: "util-linux" };

const fn postgres_binary(program: &'static str) -> Binary {
    Binary { program, versions: Some("/usr/lib/postgresql"), package: "postgresql" }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Redis,
    Postgres,
    Mariadb,
    Etcd,
}

/// Which server to start, and with which further arguments.
#[derive(Debug, Clone)]
pub struct Plan {
    kind: Kind,
    args: Vec<String>,
    extras: Extras,
}

impl Plan {
    /// A Redis that keeps nothing on disk, unless arguments say otherwise.
    #[must_use]
    pub fn redis() -> Self {
        Self::of(Kind::Redis)
    }

    /// A Redis that has every write on disk before it answers.
    #[must_use]
    pub fn redis_durable() -> Self {
        Self::redis().args(["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A Redis that lets nobody in without this password.
    #[must_use]
    pub fn redis_password(password: &str) -> Self {
        Self::redis().password(password)
    }

    /// The same Redis, with this password.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        let mut plan = self.args(["--requirepass", password]);
        plan.extras.login = Some((String::new(), password.to_owned()));
        plan
    }

    /// A Redis whose clients are told to be `user`, who may do what `rules`
    /// say, such as `~lk:* +@all`. Its password is its name.
    #[must_use]
    pub fn redis_user(user: &str, rules: &str) -> Self {
        let mut plan = Self::redis().args(["--user", user, "on", &format!(">{user}")]);
        plan = plan.args(rules.split_whitespace());
        plan.extras.login = Some((user.to_owned(), user.to_owned()));
        plan
    }

    /// A Redis behind TLS. `ca.pem`, `client.pem` and `client.key` are in its
    /// folder; `--tls-auth-clients yes` makes the client's necessary.
    #[must_use]
    pub fn redis_tls() -> Self {
        let mut plan = Self::redis();
        plan.extras.tls = true;
        plan
    }

    /// A Redis that is ready to join a cluster; see [`Fleet`](super::Fleet).
    #[must_use]
    pub fn redis_node() -> Self {
        let mut plan = Self::redis();
        plan.extras.cluster = true;
        plan
    }

    /// A sentinel with the given configuration.
    #[must_use]
    pub fn sentinel(watch: &str) -> Self {
        let mut plan = Self::redis();
        plan.extras.watch = Some(watch.to_owned());
        plan
    }

    fn of(kind: Kind) -> Self {
        Self { kind, args: Vec::new(), extras: Extras::default() }
    }

    /// A PostgreSQL that trusts loopback clients and skips fsync.
    #[must_use]
    pub fn postgres() -> Self {
        Self::of(Kind::Postgres)
    }

    /// A MariaDB whose `root` needs no password and which skips fsync.
    #[must_use]
    pub fn mariadb() -> Self {
        Self::of(Kind::Mariadb)
    }

    /// An etcd cluster of one node.
    #[must_use]
    pub fn etcd() -> Self {
        Self::of(Kind::Etcd)
    }

    /// Adds arguments for the server's command line, after our own.
    #[must_use]
    pub fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Redis => "redis-server",
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mariadbd",
            Kind::Etcd => "etcd",
        }
    }

    /// etcd wants a second port for its peers, though it has none; so does a
    /// node of a cluster.
    pub(super) const fn ports(&self) -> usize {
        if matches!(self.kind, Kind::Etcd) || self.extras.cluster { 2 } else { 1 }
    }

    /// On SIGTERM PostgreSQL would wait for its clients to leave.
    pub(super) const fn stop_signal(&self) -> Signal {
        if matches!(self.kind, Kind::Postgres) { Signal::INT } else { Signal::TERM }
    }

    pub(super) fn socket_url(&self, folder: &Path) -> String {
        self.extras.socket_url(folder)
    }

    pub(super) fn url(&self, addr: SocketAddr, folder: &Path) -> String {
        match self.kind {
            Kind::Redis => self.extras.url(addr, folder),
            Kind::Postgres => format!("postgres://postgres@{addr}/postgres"),
            Kind::Mariadb => format!("mysql://root@{addr}/leasehold"),
            Kind::Etcd => format!("etcd://{addr}"),
        }
    }

    /// Makes the data folder where the server does not do so itself.
    pub(super) fn prepare(&self, folder: &Path) -> Result<(), ServerError> {
        match self.kind {
            Kind::Redis => self.extras.prepare(folder),
            Kind::Postgres => init_postgres(folder),
            Kind::Mariadb => mariadb::prepare(folder),
            Kind::Etcd => Ok(()),
        }
    }

    pub(super) fn command(&self, folder: &Path, ports: &[u16]) -> Result<Command, ServerError> {
        let mut command = match self.kind {
            Kind::Redis => redis_command(&self.extras, folder, ports)?,
            Kind::Postgres => postgres_command(folder, ports[0])?,
            Kind::Mariadb => mariadb::command(folder, ports[0])?,
            Kind::Etcd => etcd_command(folder, ports[0], ports[1])?,
        };
        command.args(&self.args).current_dir(folder).stdin(Stdio::null());
        Ok(command)
    }

    pub(super) fn is_ready(&self, addr: SocketAddr) -> bool {
        let answer = match self.kind {
            // It takes no requests in the clear; that it listens has to do.
            Kind::Redis if self.extras.tls => TcpStream::connect(addr).map(|_| true),
            Kind::Redis => ask(addr, b"PING\r\n", is_redis),
            // 'R' is "authentication is fine"; while it starts up it says 'E'.
            Kind::Postgres => ask(addr, &postgres_hello(), |reply| reply.first() == Some(&b'R')),
            // It greets with the version of its protocol, after a length.
            Kind::Mariadb => ask(addr, b"", |reply| reply.get(4) == Some(&10)),
            Kind::Etcd => ask(addr, ETCD_HEALTH, |reply| contains(reply, b"\"health\":\"true\"")),
        };
        answer.unwrap_or(false)
    }
}

fn redis_command(extras: &Extras, folder: &Path, ports: &[u16]) -> Result<Command, ServerError> {
    let mut command = leashed(&REDIS)?;
    extras.apply(&mut command, folder, ports);
    Ok(command)
}

fn etcd_command(folder: &Path, client: u16, peer: u16) -> Result<Command, ServerError> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = leashed(&ETCD)?;
    command.arg("--name=one").arg("--data-dir").arg(folder.join("data"));
    command.arg(format!("--listen-client-urls={client}"));
    command.arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--listen-peer-urls={peer}"));
    command.arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster=one={peer}"));
    // Debian builds etcd for machines that it calls unsupported.
    command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
    Ok(command)
}

fn postgres_command(folder: &Path, port: u16) -> Result<Command, ServerError> {
    let mut command = leashed(&POSTGRES)?;
    command.arg("-D").arg(folder.join("data")).arg("-p").arg(port.to_string());
    // SIGKILL loses no page cache, so fsync would only cost time.
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"] {
        command.arg("-c").arg(setting);
    }
    run_as("postgres", &mut command)?;
    Ok(command)
}

fn init_postgres(folder: &Path) -> Result<(), ServerError> {
    give_to("postgres", folder)?;
    let mut command = leashed(&INITDB)?;
    command.arg("-D").arg(folder.join("data")).args(["-U", "postgres", "-A", "trust"]);
    command.args(["--no-sync", "--encoding=UTF8", "--locale=C"]).current_dir(folder);
    run_as("postgres", &mut command)?;
    finish(command, "initdb")
}

/// Runs a command to its end.
pub(super) fn finish(mut command: Command, name: &str) -> Result<(), ServerError> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError(format!("{name} failed ({}):\n{said}", output.status)))
}

/// The shared memory a PostgreSQL notes in its pid file, which only a polite
/// end removes: line 7 holds its key and its id.
pub(super) fn shared_memory(folder: &Path) -> Option<String> {
    let note = fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
    note.lines().nth(6)?.split_whitespace().nth(1).map(str::to_owned)
}

/// The program under the tie of spawn.rs.
pub(super) fn leashed(binary: &Binary) -> Result<Command, ServerError> {
    let program = binary.find()?;
    let mut command = Command::new(SETPRIV.find()?);
    command.args(LEASHED[1..].iter().map(OsStr::new)).arg(program);
    Ok(command)
}

/// Databases refuse to run as root; their packages bring a user.
pub(super) fn run_as(user: &str, command: &mut Command) -> Result<(), ServerError> {
    if let Some((user, group)) = ids_of(user)? {
        command.uid(user).gid(group);
    }
    Ok(())
}

/// Lets that user write in its folder.
pub(super) fn give_to(user: &str, folder: &Path) -> Result<(), ServerError> {
    if let Some((user, group)) = ids_of(user)? {
        chown(folder, Some(user), Some(group))?;
    }
    Ok(())
}

/// The user to change to, or `None` where we are an ordinary user already.
fn ids_of(user: &str) -> Result<Option<(u32, u32)>, ServerError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let found = users.lines().find_map(|line| parse_user(line, user));
    let missing = || {
        ServerError(format!(
            "there is no user `{user}`, and the server does not run as root; its Debian package \
             makes that user"
        ))
    };
    found.map(Some).ok_or_else(missing)
}

fn parse_user(line: &str, wanted: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    (name == wanted).then_some((user, group))
}

/// A server that wants a password first is ready too.
fn is_redis(reply: &[u8]) -> bool {
    reply.starts_with(b"+PONG\r\n") || reply.starts_with(b"-NOAUTH")
}

const ETCD_HEALTH: &[u8] = b"GET /health HTTP/1.0\r\n\r\n";

/// The protocol's start-up message, version 3.0.
fn postgres_hello() -> Vec<u8> {
    let body = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(body.len() + 4).expect("a short constant");
    [&length.to_be_bytes()[..], body].concat()
}

/// Sends `request` and reads until `enough` likes the reply or it ends.
fn ask(addr: SocketAddr, request: &[u8], enough: fn(&[u8]) -> bool) -> io::Result<bool> {
    let patience = Duration::from_millis(500);
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request)?;
    let (mut reply, mut chunk) = (Vec::new(), [0; 512]);
    loop {
        let count = stream.read(&mut chunk)?;
        reply.extend_from_slice(&chunk[..count]);
        if count == 0 || enough(&reply) {
            return Ok(enough(&reply));
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Plan, parse_user};

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let line = "postgres:x:105:113:PostgreSQL:/var/lib/postgresql:/bin/bash";
        assert_eq!(parse_user(line, "postgres"), Some((105, 113)));
        assert_eq!(parse_user(line, "post"), None);
    }

    #[test]
    fn a_url_carries_the_address_it_is_given() {
        let addr = "127.0.0.1:7".parse().unwrap();
        let url = |plan: Plan| plan.url(addr, Path::new("/f"));
        assert_eq!(url(Plan::redis()), "redis://127.0.0.1:7/");
        assert_eq!(url(Plan::redis_password("pw")), "redis://:pw@127.0.0.1:7/");
        assert_eq!(url(Plan::redis_tls()), "rediss://127.0.0.1:7/?ca=/f/ca.pem");
        assert_eq!(url(Plan::postgres()), "postgres://postgres@127.0.0.1:7/postgres");
        assert_eq!(url(Plan::mariadb()), "mysql://root@127.0.0.1:7/leasehold");
        assert_eq!(url(Plan::etcd()), "etcd://127.0.0.1:7");
    }
}
