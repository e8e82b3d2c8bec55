//! What differs between the servers: program, arguments, ready check, URL.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::ServerError;
use super::binary::Binary;
use super::member::Member;
use super::redis::Extras;
use super::spawn::LEASHED;
use super::{etcd, mariadb, pgbouncer, postgres, zookeeper};

const REDIS: Binary = Binary { program: "redis-server", versions: None, package: "redis-server" };
/// Debian keeps the tie to the parent's death in an essential package.
const SETPRIV: Binary = Binary { program: LEASHED[0], versions: None, package: "util-linux" };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Redis,
    Postgres,
    PgBouncer,
    Mariadb,
    Etcd,
    Zookeeper,
}

/// Which server to start, and with which further arguments.
#[derive(Debug, Clone)]
pub struct Plan {
    kind: Kind,
    args: Vec<String>,
    env: Vec<(String, String)>,
    extras: Extras,
    /// The port of the server that this one stands before or copies.
    source: Option<u16>,
    /// Its place, if it is one of several that agree.
    member: Option<Member>,
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

    /// The same Redis, PostgreSQL, MariaDB or etcd, with this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        let (user, password) = (self.user().to_owned(), password.to_owned());
        if self.kind == Kind::Redis {
            self.args.extend(["--requirepass".to_owned(), password.clone()]);
        }
        self.extras.login = Some((user, password));
        self
    }

    /// Who may do everything; a Redis wants no name.
    const fn user(&self) -> &'static str {
        match self.kind {
            Kind::Postgres | Kind::PgBouncer => "postgres",
            Kind::Mariadb | Kind::Etcd => "root",
            Kind::Redis | Kind::Zookeeper => "",
        }
    }

    /// The same server behind TLS. `ca.pem`, `client.pem` and `client.key` are in
    /// its folder.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.extras.tls = true;
        self
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
        Self::redis().tls()
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
        Self {
            kind,
            args: Vec::new(),
            env: Vec::new(),
            extras: Extras::default(),
            source: None,
            member: None,
        }
    }

    /// A PostgreSQL that trusts loopback clients and skips fsync.
    #[must_use]
    pub fn postgres() -> Self {
        Self::of(Kind::Postgres)
    }

    /// A standby of the PostgreSQL at that port, which it follows and may
    /// replace.
    #[must_use]
    pub fn postgres_standby(primary: u16) -> Self {
        Self { source: Some(primary), ..Self::postgres() }
    }

    /// A PgBouncer before the PostgreSQL at that port, which hands out sessions
    /// by the transaction. Arguments are lines of its configuration.
    #[must_use]
    pub fn pgbouncer(server: u16) -> Self {
        Self { source: Some(server), ..Self::of(Kind::PgBouncer) }
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

    /// A ZooKeeper of one server. Arguments are lines of its configuration.
    #[must_use]
    pub fn zookeeper() -> Self {
        Self::of(Kind::Zookeeper)
    }

    /// The same ZooKeeper or etcd, as one of several that agree.
    pub(super) fn member(self, member: Member) -> Self {
        Self { member: Some(member), ..self }
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

    /// Sets variables of the server's environment.
    #[must_use]
    pub fn env<I>(mut self, variables: I) -> Self
    where
        I: IntoIterator<Item = (String, String)>,
    {
        self.env.extend(variables);
        self
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Redis => "redis-server",
            Kind::Postgres => "postgres",
            Kind::PgBouncer => "pgbouncer",
            Kind::Mariadb => "mariadbd",
            Kind::Etcd => "etcd",
            Kind::Zookeeper => "zookeeper",
        }
    }

    /// Whoever has peers wants further ports for them.
    pub(super) const fn ports(&self) -> usize {
        match self.kind {
            Kind::Etcd => etcd::PORTS,
            Kind::Zookeeper => zookeeper::PORTS,
            _ if self.extras.cluster => 2,
            _ => 1,
        }
    }

    /// On SIGTERM PostgreSQL would wait for its clients to leave.
    pub(super) const fn stop_signal(&self) -> Signal {
        if matches!(self.kind, Kind::Postgres | Kind::PgBouncer) {
            Signal::INT
        } else {
            Signal::TERM
        }
    }

    pub(super) fn socket_url(&self, folder: &Path) -> String {
        self.extras.socket_url(folder)
    }

    pub(super) fn url(&self, addr: SocketAddr, folder: &Path) -> String {
        match self.kind {
            Kind::Redis => self.extras.url(addr, folder),
            Kind::Postgres | Kind::PgBouncer => {
                format!("postgres://{}/postgres{}", self.login(addr), self.ca(folder))
            }
            Kind::Mariadb => format!("mysql://{}/leasehold{}", self.login(addr), self.ca(folder)),
            Kind::Etcd => self.secured("etcd", &self.login(addr), folder),
            Kind::Zookeeper => self.secured("zookeeper", &addr.to_string(), folder),
        }
    }

    /// `scheme://place`, and an `s` more behind TLS.
    fn secured(&self, scheme: &str, place: &str, folder: &Path) -> String {
        let s = if self.extras.tls { "s" } else { "" };
        format!("{scheme}{s}://{place}{}", self.ca(folder))
    }

    fn login(&self, addr: SocketAddr) -> String {
        match &self.extras.login {
            Some((user, password)) => format!("{user}:{password}@{addr}"),
            None if self.kind == Kind::Etcd => addr.to_string(),
            None => format!("{}@{addr}", self.user()),
        }
    }

    fn ca(&self, folder: &Path) -> String {
        let file = folder.join("ca.pem");
        if self.extras.tls { format!("?ca={}", file.display()) } else { String::new() }
    }

    /// Makes the data folder where the server does not do so itself.
    pub(super) fn prepare(&self, folder: &Path) -> Result<(), ServerError> {
        match self.kind {
            Kind::Redis => self.extras.prepare(folder),
            Kind::Postgres => postgres::prepare(folder, &self.extras, self.source),
            Kind::PgBouncer => pgbouncer::prepare(folder),
            Kind::Mariadb => mariadb::prepare(folder, &self.extras),
            Kind::Etcd => etcd::prepare(folder, &self.extras),
            Kind::Zookeeper => zookeeper::prepare(folder, &self.extras, self.member.as_ref()),
        }
    }

    /// What is left to do once it has answered for the first time.
    pub(super) fn settle(&self, addr: SocketAddr, folder: &Path) -> Result<(), ServerError> {
        if self.kind == Kind::Etcd { etcd::lock_up(addr, folder, &self.extras) } else { Ok(()) }
    }

    pub(super) fn command(&self, folder: &Path, ports: &[u16]) -> Result<Command, ServerError> {
        let member = self.member.as_ref();
        let mut command = match self.kind {
            Kind::Redis => redis_command(&self.extras, folder, ports)?,
            Kind::Postgres => postgres::command(folder, ports[0], &self.extras)?,
            Kind::PgBouncer => {
                let server = self.source.unwrap_or_default();
                pgbouncer::command(folder, ports[0], server, &self.args)?
            }
            Kind::Mariadb => mariadb::command(folder, ports[0], &self.extras)?,
            Kind::Etcd => etcd::command(folder, ports, &self.extras, member)?,
            Kind::Zookeeper => zookeeper::command(folder, ports, &self.extras, member, &self.args)?,
        };
        if !self.reads_lines() {
            command.args(&self.args);
        }
        command.envs(self.env.clone());
        command.current_dir(folder).stdin(Stdio::null());
        Ok(command)
    }

    /// Whether its arguments are lines of a file.
    const fn reads_lines(&self) -> bool {
        matches!(self.kind, Kind::PgBouncer | Kind::Zookeeper)
    }

    pub(super) fn sql(&self, addr: SocketAddr, statement: &str) -> Result<String, ServerError> {
        let port = addr.port().to_string();
        let password = self.extras.login.as_ref().map_or("", |(_, password)| password);
        let mut command = if self.kind == Kind::Mariadb {
            let mut command = Command::new("mariadb");
            command.args(["--no-defaults", "-h", "127.0.0.1", "-P", &port, "-u", "root", "-NBe"]);
            command.arg(statement).arg("leasehold").env("MYSQL_PWD", password);
            command
        } else {
            let mut command = Command::new("psql");
            command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-XAtqc", statement]);
            command.arg("postgres").env("PGPASSWORD", password);
            command
        };
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(ServerError(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// One word to a ZooKeeper, and its answer.
    pub(super) fn say(&self, ports: &[u16], word: &str) -> Result<String, ServerError> {
        let reply = exchange(loopback(zookeeper::clear(ports, &self.extras)), word.as_bytes())?;
        Ok(String::from_utf8_lossy(&reply).into_owned())
    }

    /// Whether this ZooKeeper or etcd leads its ensemble.
    pub(super) fn leads(&self, addr: SocketAddr, ports: &[u16], folder: &Path) -> bool {
        if self.kind == Kind::Zookeeper {
            return self.say(ports, "srvr").is_ok_and(|said| said.contains("Mode: leader"));
        }
        etcd::leads(addr, folder, &self.extras)
    }

    pub(super) fn tell(
        &self,
        addr: SocketAddr,
        folder: &Path,
        words: &[&str],
    ) -> Result<String, ServerError> {
        etcd::tell(addr, folder, &self.extras, words)
    }

    pub(super) fn etcdctl(&self, hosts: &str, folder: &Path) -> Result<Command, ServerError> {
        etcd::etcdctl(hosts, folder, &self.extras)
    }

    pub(super) fn is_ready(&self, ports: &[u16]) -> bool {
        let addr = loopback(ports[0]);
        let answer = match self.kind {
            // It takes no requests in the clear; that it listens has to do.
            Kind::Redis if self.extras.tls => TcpStream::connect(addr).map(|_| true),
            Kind::Redis => ask(addr, b"PING\r\n", is_redis),
            // 'R' speaks of authentication; while it starts up it says 'E'.
            Kind::Postgres | Kind::PgBouncer => {
                ask(addr, &postgres::hello(), |reply| reply.first() == Some(&b'R'))
            }
            // It greets with the version of its protocol, after a length.
            Kind::Mariadb => ask(addr, b"", |reply| reply.get(4) == Some(&10)),
            Kind::Etcd => ask(loopback(ports[2]), ETCD_HEALTH, |reply| {
                contains(reply, b"\"health\":\"true\"")
            }),
            // It says so only while it serves: with a leader, if it is one of several.
            // The port for clients may be another, and come later.
            Kind::Zookeeper => {
                let clear = loopback(zookeeper::clear(ports, &self.extras));
                let serves = ask(clear, b"srvr", |reply| contains(reply, b"Mode: "));
                serves.and_then(|serves| TcpStream::connect(addr).map(|_| serves))
            }
        };
        answer.unwrap_or(false)
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn redis_command(extras: &Extras, folder: &Path, ports: &[u16]) -> Result<Command, ServerError> {
    let mut command = leashed(&REDIS)?;
    extras.apply(&mut command, folder, ports);
    Ok(command)
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

/// The program under the tie of spawn.rs.
pub(super) fn leashed(binary: &Binary) -> Result<Command, ServerError> {
    let program = binary.find()?;
    let mut command = Command::new(SETPRIV.find()?);
    command.args(LEASHED[1..].iter().map(OsStr::new)).arg(program);
    Ok(command)
}

/// A server that wants a password first is ready too.
fn is_redis(reply: &[u8]) -> bool {
    reply.starts_with(b"+PONG\r\n") || reply.starts_with(b"-NOAUTH")
}

const ETCD_HEALTH: &[u8] = b"GET /health HTTP/1.0\r\n\r\n";

/// Sends `request` and reads until `enough` likes the reply or it ends.
fn ask(addr: SocketAddr, request: &[u8], enough: fn(&[u8]) -> bool) -> io::Result<bool> {
    Ok(enough(&read(addr, request, enough)?))
}

/// Sends `request` and reads until the other side closes.
fn exchange(addr: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    read(addr, request, |_| false)
}

fn read(addr: SocketAddr, request: &[u8], enough: fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let patience = Duration::from_millis(500);
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request)?;
    let (mut reply, mut chunk) = (Vec::new(), [0; 512]);
    loop {
        let count = stream.read(&mut chunk)?;
        reply.extend_from_slice(&chunk[..count]);
        if count == 0 || enough(&reply) {
            return Ok(reply);
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Plan;

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
        assert_eq!(url(Plan::etcd().password("pw")), "etcd://root:pw@127.0.0.1:7");
        assert_eq!(url(Plan::etcd().tls()), "etcds://127.0.0.1:7?ca=/f/ca.pem");
        assert_eq!(url(Plan::zookeeper()), "zookeeper://127.0.0.1:7");
        assert_eq!(url(Plan::zookeeper().tls()), "zookeepers://127.0.0.1:7?ca=/f/ca.pem");
    }
}
