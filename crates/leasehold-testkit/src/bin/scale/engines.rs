//! The rows of every table: an engine on servers of its own.

use std::path::Path;

use leasehold_testkit::Server;
use leasehold_testkit::contest::Checked;
use leasehold_testkit::server::{Plan, ask};
use tempfile::TempDir;

use crate::work::{WORKS, Work};

/// An engine, or a layout of one.
#[derive(Debug)]
pub(crate) struct EngineRow {
    pub(crate) name: &'static str,
    start: fn() -> Checked<Running>,
    pub(crate) works: &'static [Work],
    own: Sizes,
}

const ALL: &[Work] = &WORKS;
/// What is not kept on disk does not come back.
const NOT_RESTARTED: &[Work] = WORKS.split_last().expect("restarts come last").1;
const RESTARTED: &[Work] = &[Work::Restart];
/// A store in memory has one client.
const INSIDE: &[Work] =
    &[Work::Waiters, Work::Held, Work::Loss, Work::List, Work::Names, Work::Farewell];
/// A majority has no line and no index.
const MAJORITY: &[Work] =
    &[Work::Held, Work::Loss, Work::Clients, Work::Names, Work::Farewell, Work::Processes];
/// Layouts of others differ in how they stand in line.
const LINE: &[Work] = &[Work::Waiters];

/// Other sizes than the table has: what is quick goes further, and what would be cut
/// by the limit of a cell does not go there.
type Sizes = &'static [(Work, &'static [usize])];

const MEMORY: Sizes =
    &[(Work::Loss, &[1_000, 10_000, 100_000]), (Work::Names, &[10_000, 100_000, 1_000_000])];
const FAST: Sizes = &[(Work::Loss, &[1_000, 10_000, 100_000])];
/// Three servers for each lease, each asked by itself.
const SLOW: Sizes = &[(Work::Held, &[1_000, 10_000]), (Work::Farewell, &[1_000, 10_000])];
/// Agreed upon one by one.
const AGREED: Sizes = &[
    (Work::Held, &[10_000, 50_000]),
    (Work::List, &[1_000, 10_000]),
    (Work::Names, &[10_000, 50_000]),
    (Work::Farewell, &[10_000, 50_000]),
];
const OF_OTHERS: Sizes = &[(Work::Waiters, &[100, 1_000, 10_000])];

pub(crate) const ENGINES: [EngineRow; 13] = [
    EngineRow { name: "memory", start: memory, works: INSIDE, own: MEMORY },
    EngineRow { name: "sqlite", start: sqlite, works: NOT_RESTARTED, own: FAST },
    EngineRow { name: "redis", start: redis, works: NOT_RESTARTED, own: FAST },
    EngineRow { name: "redis-aof", start: redis_durable, works: RESTARTED, own: &[] },
    EngineRow { name: "quorum", start: quorum, works: MAJORITY, own: SLOW },
    EngineRow { name: "postgres", start: postgres, works: ALL, own: &[] },
    EngineRow { name: "mysql", start: mysql, works: ALL, own: &[] },
    EngineRow { name: "etcd", start: etcd, works: ALL, own: AGREED },
    EngineRow { name: "zookeeper", start: zookeeper, works: ALL, own: AGREED },
    EngineRow { name: "etcd-go", start: etcd_raw, works: LINE, own: OF_OTHERS },
    EngineRow { name: ETCD_BY_HAND, start: etcd, works: LINE, own: OF_OTHERS },
    EngineRow { name: "zookeeper-curator", start: zookeeper_raw, works: LINE, own: OF_OTHERS },
    EngineRow { name: ZOOKEEPER_BY_HAND, start: zookeeper, works: LINE, own: OF_OTHERS },
];

/// Bare requests, without Leasehold.
pub(crate) const ETCD_BY_HAND: &str = "etcd-go-by-hand";
pub(crate) const ZOOKEEPER_BY_HAND: &str = "zookeeper-curator-by-hand";

impl EngineRow {
    /// Starts its servers.
    pub(crate) fn start(&self) -> Checked<Running> {
        (self.start)()
    }

    /// How many there are of what the work is about.
    pub(crate) fn sizes(&self, work: Work) -> &'static [usize] {
        let own = self.own.iter().find(|(of, _)| *of == work);
        own.map_or(work.sizes(), |(_, sizes)| sizes)
    }
}

/// Servers that run; they end with the value.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) url: String,
    /// What they are, and what they keep.
    pub(crate) about: String,
    servers: Vec<Server>,
    _folder: Option<TempDir>,
}

impl Running {
    /// The first process of each.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::pid).collect()
    }

    /// Ends their processes at once (SIGKILL).
    pub(crate) fn kill(&mut self) -> Checked {
        Ok(self.servers.iter_mut().try_for_each(Server::kill)?)
    }

    /// Where they were, with what they have on disk.
    pub(crate) fn start_again(&mut self) -> Checked {
        Ok(self.servers.iter_mut().try_for_each(Server::restart)?)
    }

    fn on(server: Server, about: String) -> Self {
        Self { url: server.url(), about, servers: vec![server], _folder: None }
    }

    fn raw(mut self) -> Self {
        self.url += "?names=raw";
        self
    }
}

fn memory() -> Checked<Running> {
    let about = "in the process, not durable".to_owned();
    Ok(Running { url: "memory:".to_owned(), about, servers: Vec::new(), _folder: None })
}

fn sqlite() -> Checked<Running> {
    let shm = Path::new("/dev/shm");
    let (folder, place) = if shm.is_dir() {
        (TempDir::with_prefix_in("leasehold-", shm)?, "in memory (/dev/shm)")
    } else {
        (TempDir::new()?, "on disk")
    };
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let about = format!("SQLite as the library bundles it, file {place}");
    Ok(Running { url, about, servers: Vec::new(), _folder: Some(folder) })
}

fn redis() -> Checked<Running> {
    let server = Server::redis()?;
    let about = format!("{}, not durable: nothing is written to disk", redis_version(&server)?);
    Ok(Running::on(server, about))
}

fn redis_durable() -> Checked<Running> {
    let server = Server::start(Plan::redis_durable())?;
    let about = format!("{}, durable: every write is synced first", redis_version(&server)?);
    Ok(Running::on(server, about))
}

fn redis_version(server: &Server) -> Checked<String> {
    let info = ask(server, &["INFO", "server"])?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(format!("Redis {}", version.unwrap_or_default().trim()))
}

fn quorum() -> Checked<Running> {
    let servers = (0..3).map(|_| Server::redis()).collect::<Result<Vec<_>, _>>()?;
    let hosts: Vec<String> = servers.iter().map(|server| server.addr().to_string()).collect();
    let url = format!("redlock://{}?quarantine=0s&timeout=1s", hosts.join(","));
    let about = format!("three of {}, not durable, timeout=1s", redis_version(&servers[0])?);
    Ok(Running { url, about, servers, _folder: None })
}

/// Written to a file before it is answered, which outlives the process.
const UNSYNCED: &str = "survives its process, not its machine";
/// As many connections as the largest table needs.
const CONNECTIONS: &str = "max_connections=1200";

fn postgres() -> Checked<Running> {
    let server = Server::start(Plan::postgres().args(["-c", CONNECTIONS]))?;
    let version = server.sql("SHOW server_version")?;
    let about = format!("PostgreSQL {version}, {UNSYNCED}: fsync off, {CONNECTIONS}");
    Ok(Running::on(server, about))
}

fn mysql() -> Checked<Running> {
    let server = Server::start(Plan::mariadb().args([format!("--{CONNECTIONS}")]))?;
    let version = server.sql("SELECT version()")?;
    let about = format!("{version}, {UNSYNCED}: synced once a second, {CONNECTIONS}");
    Ok(Running::on(server, about))
}

fn etcd() -> Checked<Running> {
    let server = Server::etcd()?;
    let told = server.tell(&["endpoint", "status", "-w", "fields"])?;
    let version = told.lines().find_map(|line| line.strip_prefix("\"Version\" : "));
    let version = version.unwrap_or_default().trim_matches('"').to_owned();
    let about = format!("etcd {version}, one member, synced to a file in memory (/dev/shm)");
    Ok(Running::on(server, about))
}

fn zookeeper() -> Checked<Running> {
    // The heap of the tests would be the first limit; this variable has the last word.
    let heap = ("_JAVA_OPTIONS".to_owned(), "-Xmx1g".to_owned());
    let server = Server::start(Plan::zookeeper().env([heap]))?;
    let told = server.say("srvr")?;
    let version = told.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    let version = version.and_then(|it| it.split(['-', ',']).next()).unwrap_or_default().to_owned();
    let about =
        format!("ZooKeeper {version}, one server with a heap of 1 GiB, {UNSYNCED}: forceSync=no");
    Ok(Running::on(server, about))
}

fn etcd_raw() -> Checked<Running> {
    Ok(etcd()?.raw())
}

fn zookeeper_raw() -> Checked<Running> {
    Ok(zookeeper()?.raw())
}
