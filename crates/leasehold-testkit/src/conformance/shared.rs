//! Servers that many stores share, each in a database or with keys of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// A server that is started by the first who wants it; others wait for it, and
/// nobody for another one.
type Slot = Arc<Mutex<Option<Started>>>;

static SERVERS: Mutex<Option<HashMap<Kind, Slot>>> = Mutex::new(None);

/// The URL of the server of this kind.
pub(super) fn url(kind: Kind) -> Result<String, ServerError> {
    look_at(kind, Started::url)
}

/// Looks at the server of this kind, which is started if there is none.
fn look_at<T>(kind: Kind, look: impl FnOnce(&Started) -> T) -> Result<T, ServerError> {
    let slot = Arc::clone(servers().get_or_insert_default().entry(kind).or_default());
    let mut slot = locked(&slot);
    match &mut *slot {
        Some(started) => Ok(look(started)),
        none => Ok(look(none.insert(start(kind)?))),
    }
}

/// A pooler, and the PostgreSQL that it stands before.
fn start_pooler() -> Result<Started, ServerError> {
    let port = look_at(Kind::Postgres, |behind| match behind {
        Started::Server(behind) => behind.port(),
        Started::Fleet(_) | Started::Ensemble(_) => 0,
    })?;
    let lines = ["max_client_conn = 2000", "default_pool_size = 40"];
    Server::start(Plan::pgbouncer(port).args(lines)).map(Started::Server)
}

fn start(kind: Kind) -> Result<Started, ServerError> {
    let server = |plan| Server::start(plan).map(Started::Server);
    let ensemble = |plan| Ensemble::start(&plan, 3).map(Started::Ensemble);
    match kind {
        Kind::Redis | Kind::Node(_) => server(Plan::redis().args(["--databases", "10000"])),
        Kind::Tls => server(Plan::redis_tls().password("pw")),
        Kind::Sentinels => calm(Fleet::watched(1)?),
        Kind::Cluster => calm(Fleet::cluster()?),
        Kind::Pgbouncer => start_pooler(),
        Kind::Postgres => {
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
    let mut started = servers().take().unwrap_or_default();
    // The pooler first: it stands before another.
    drop(started.remove(&Kind::Pgbouncer));
    thread::scope(|scope| {
        started.into_values().for_each(|slot| drop(scope.spawn(move || locked(&slot).take())));
    });
}

fn servers() -> MutexGuard<'static, Option<HashMap<Kind, Slot>>> {
    locked(&SERVERS)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
