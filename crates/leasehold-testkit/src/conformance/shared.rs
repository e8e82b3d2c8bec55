//! Servers that many stores share, each in a database or with keys of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::server::{Ensemble, Fleet, Plan, Server, ServerError, ask, tell};

/// A server that can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A single Redis that keeps nothing on disk.
    Redis,
    /// One of several that know nothing of each other.
    Node(usize),
    /// A Redis that wants a password and TLS.
    Tls,
    /// A primary with a replica, under sentinels.
    Sentinels,
    /// Three primaries with a replica each.
    Cluster,
    /// A single PostgreSQL.
    Postgres,
    /// A transaction pooler in front of it.
    Pgbouncer,
    /// A single MariaDB.
    Mariadb,
    /// A single etcd.
    Etcd,
    /// Three of them that agree.
    EtcdCluster,
    /// A single ZooKeeper.
    Zookeeper,
    /// Three of them that agree.
    ZookeeperEnsemble,
}

/// What was started.
enum Started {
    Server(Server),
    Fleet(Fleet),
    Ensemble(Ensemble),
}

impl Started {
    fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Fleet(fleet) => fleet.url(),
            Self::Ensemble(ensemble) => ensemble.url(),
        }
    }
}

static SERVERS: Mutex<Option<HashMap<Kind, Started>>> = Mutex::new(None);

/// The URL of the server of this kind, which is started if there is none.
pub(super) fn url(kind: Kind) -> Result<String, ServerError> {
    let mut servers = servers();
    if kind == Kind::Pgbouncer {
        start_behind(servers.get_or_insert_default())?;
    }
    let started = match servers.get_or_insert_default().entry(kind) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(start(kind)?),
    };
    Ok(started.url())
}

/// A pooler, and the PostgreSQL that it stands before.
fn start_behind(servers: &mut HashMap<Kind, Started>) -> Result<(), ServerError> {
    if servers.contains_key(&Kind::Pgbouncer) {
        return Ok(());
    }
    let behind = match servers.entry(Kind::Postgres) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(room) => room.insert(start(Kind::Postgres)?),
    };
    let Started::Server(behind) = behind else { return Ok(()) };
    let lines = ["max_client_conn = 2000", "default_pool_size = 40"];
    let pooler = Server::start(Plan::pgbouncer(behind.port()).args(lines))?;
    servers.insert(Kind::Pgbouncer, Started::Server(pooler));
    Ok(())
}

fn start(kind: Kind) -> Result<Started, ServerError> {
    let server = |plan| Server::start(plan).map(Started::Server);
    let ensemble = |plan| Ensemble::start(&plan, 3).map(Started::Ensemble);
    match kind {
        Kind::Redis | Kind::Node(_) => server(Plan::redis().args(["--databases", "10000"])),
        Kind::Tls => server(Plan::redis_tls().password("pw")),
        Kind::Sentinels => calm(Fleet::watched(1)?),
        Kind::Cluster => calm(Fleet::cluster()?),
        Kind::Postgres | Kind::Pgbouncer => {
            // As a careful operator has it: it is examined, too.
            server(Plan::postgres().args(["-c", "max_connections=800", "-c", "fsync=on"]))
        }
        Kind::Mariadb => server(Plan::mariadb().args(["--max-connections=800"])),
        Kind::Etcd => server(Plan::etcd()),
        Kind::EtcdCluster => ensemble(Plan::etcd()),
        Kind::Zookeeper => server(Plan::zookeeper()),
        // Nobody dies here, and a busy machine must not look like it.
        Kind::ZookeeperEnsemble => ensemble(Plan::zookeeper().args(["syncLimit=300"])),
    }
}

/// Nobody dies here, and a busy machine must not look like it.
fn calm(mut fleet: Fleet) -> Result<Started, ServerError> {
    for sentinel in fleet.sentinels() {
        ask(sentinel, &["SENTINEL", "SET", "main", "down-after-milliseconds", "60000"])?;
    }
    for server in fleet.servers() {
        ask(server, &["CONFIG", "SET", "cluster-node-timeout", "60000"])?;
    }
    Ok(Started::Fleet(fleet))
}

/// The URL of a new database on the server of this kind.
pub(super) fn database(kind: Kind) -> Result<String, ServerError> {
    let (server, name) = (url(kind)?, format!("store{}", number()));
    tell(&server, &format!("CREATE DATABASE {name}"))?;
    let (place, _) = server.rsplit_once('/').unwrap_or((&server, ""));
    Ok(format!("{place}/{name}"))
}

/// A number that no other store of this process has.
pub(super) fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Ends the shared servers, all at the same time; the last thing a test binary
/// does.
pub fn end_servers() {
    let started = servers().take().unwrap_or_default();
    // The pooler first: it stands before another.
    let (first, rest): (Vec<_>, Vec<_>) =
        started.into_iter().partition(|(kind, _)| *kind == Kind::Pgbouncer);
    drop(first);
    thread::scope(|scope| {
        rest.into_iter().for_each(|started| drop(scope.spawn(move || drop(started))));
    });
}

fn servers() -> MutexGuard<'static, Option<HashMap<Kind, Started>>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}
