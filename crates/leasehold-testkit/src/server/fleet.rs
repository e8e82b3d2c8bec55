//! Several Redis servers that belong together.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::{Plan, Server, ServerError};

/// How long servers may take to agree.
const AGREE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(10);
/// Under which name sentinels know the primary.
const SERVICE: &str = "main";
/// How long a sentinel waits for a silent primary.
const DOWN_AFTER: &str = "500";
const SLOTS: u16 = 16_384;

/// A deployment of real servers. All end with its value.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Replicated,
    Watched,
    Cluster,
}

impl Fleet {
    /// A primary (the first server) and its replicas, which are in sync.
    ///
    /// # Errors
    ///
    /// When a server does not start, or they do not get in sync.
    pub fn replicated(replicas: usize) -> Result<Self, ServerError> {
        let servers =
            start(&Plan::redis().args(["--repl-diskless-sync-delay", "0"]), replicas + 1)?;
        let fleet = Self { servers, sentinels: Vec::new(), shape: Shape::Replicated };
        for replica in &fleet.servers[1..] {
            follow(replica, &fleet.servers[0])?;
        }
        fleet
            .until("the replicas are in sync", |fleet| fleet.servers[1..].iter().all(is_synced))?;
        Ok(fleet)
    }

    /// The same under three sentinels, which promote a replica when the primary
    /// has been silent for half a second.
    ///
    /// # Errors
    ///
    /// When a server does not start, or the sentinels do not find all.
    pub fn watched(replicas: usize) -> Result<Self, ServerError> {
        let mut fleet = Self::replicated(replicas)?;
        fleet.sentinels = start(&Plan::sentinel(&watch(fleet.servers[0].port())), 3)?;
        fleet.shape = Shape::Watched;
        fleet.until("the sentinels know all", |fleet| {
            fleet.sentinels.iter().all(|sentinel| knows(sentinel, replicas))
        })?;
        Ok(fleet)
    }

    /// A cluster of three primaries (the first three servers) with a replica
    /// each.
    ///
    /// # Errors
    ///
    /// When a server does not start, or they do not agree on the cluster.
    pub fn cluster() -> Result<Self, ServerError> {
        let plan = Plan::redis_node().args(["--repl-diskless-sync-delay", "0"]);
        let servers = start(&plan, 6)?;
        let fleet = Self { servers, sentinels: Vec::new(), shape: Shape::Cluster };
        fleet.form()?;
        Ok(fleet)
    }

    /// The URL under which Leasehold opens the deployment.
    #[must_use]
    pub fn url(&self) -> String {
        let list = |servers: &[Server]| {
            servers.iter().map(|server| server.addr().to_string()).collect::<Vec<_>>().join(",")
        };
        match self.shape {
            Shape::Replicated => format!("redis://{}/", list(&self.servers)),
            Shape::Watched => format!("redis+sentinel://{}/{SERVICE}/", list(&self.sentinels)),
            Shape::Cluster => format!("redis+cluster://{}", list(&self.servers)),
        }
    }

    /// The servers that hold data.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The sentinels, if there are any.
    pub fn sentinels(&mut self) -> &mut [Server] {
        &mut self.sentinels
    }

    /// Which server is a primary now: the first that says so.
    ///
    /// # Errors
    ///
    /// When none is.
    pub fn primary(&self) -> Result<usize, ServerError> {
        let found =
            self.servers.iter().position(|server| role(server).as_deref() == Some("master"));
        found.ok_or_else(|| ServerError("no server is a primary".into()))
    }

    /// The primary that serves a key.
    ///
    /// # Errors
    ///
    /// When no server says that it does.
    pub fn primary_of(&self, key: &str) -> Result<usize, ServerError> {
        let serves = |server: &Server| {
            role(server).as_deref() == Some("master") && ask(server, &["EXISTS", key]).is_ok()
        };
        let found = self.servers.iter().position(serves);
        found.ok_or_else(|| ServerError(format!("no server serves {key}")))
    }

    /// Kills the primary as a power cut would, and says which one it was.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be killed.
    pub fn kill_primary(&mut self) -> Result<usize, ServerError> {
        let primary = self.primary()?;
        self.servers[primary].kill()?;
        Ok(primary)
    }

    /// Waits until another server than `old` has taken over from it.
    ///
    /// # Errors
    ///
    /// When nobody does in time.
    pub fn await_successor(&self, old: usize) -> Result<usize, ServerError> {
        let before = if self.shape == Shape::Cluster { 2 } else { 0 };
        let primaries = |fleet: &Self| {
            let all = fleet
                .servers
                .iter()
                .enumerate()
                .filter(|(at, server)| *at != old && role(server).as_deref() == Some("master"));
            all.map(|(at, _)| at).collect::<Vec<_>>()
        };
        self.until("a replica took over", |fleet| primaries(fleet).len() > before)?;
        primaries(self).pop().ok_or_else(|| ServerError("the successor is gone".into()))
    }

    /// Makes a cluster of six servers that know nothing of each other.
    fn form(&self) -> Result<(), ServerError> {
        let (primaries, replicas) = self.servers.split_at(3);
        for (at, server) in (0_u16..).zip(&self.servers) {
            ask(server, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])?;
            if at < 3 {
                let (first, next) = (SLOTS * at / 3, SLOTS * (at + 1) / 3);
                let range = [first.to_string(), (next - 1).to_string()];
                ask(server, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
            }
            let (port, bus) = (server.port().to_string(), server.ports[1].to_string());
            ask(&self.servers[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        self.until("all nodes have met", |fleet| {
            fleet.servers.iter().all(|server| says(server, "cluster_known_nodes:6"))
        })?;
        for (replica, primary) in replicas.iter().zip(primaries) {
            let id = ask(primary, &["CLUSTER", "MYID"])?;
            ask(replica, &["CLUSTER", "REPLICATE", &id])?;
        }
        self.until("the cluster is up", |fleet| {
            let up = fleet.servers.iter().all(|server| says(server, "cluster_state:ok"));
            up && fleet.servers[3..].iter().all(is_synced) && fleet.agrees()
        })
    }

    /// Whether every node sees three replicas in their places.
    fn agrees(&self) -> bool {
        let replicas = |server: &Server| {
            let nodes = ask(server, &["CLUSTER", "NODES"]).unwrap_or_default();
            nodes.lines().filter(|line| line.contains("slave ")).count()
        };
        self.servers.iter().all(|server| replicas(server) == 3)
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), ServerError> {
        let end = Instant::now() + AGREE;
        while Instant::now() < end {
            if done(self) {
                return Ok(());
            }
            thread::sleep(TICK);
        }
        Err(ServerError(format!("not in time: {what}")))
    }
}

/// Sends a command to a server and gives back the answer as text.
///
/// # Errors
///
/// When the server cannot be reached or refuses.
pub fn ask(server: &Server, words: &[&str]) -> Result<String, ServerError> {
    ask_at(server.addr(), words).map_err(|error| ServerError(format!("{words:?}: {error}")))
}

fn ask_at(addr: SocketAddr, words: &[&str]) -> ::redis::RedisResult<String> {
    let client = ::redis::Client::open(format!("redis://{addr}"))?;
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(2))?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut command = ::redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answer: ::redis::Value = command.query(&mut connection)?;
    Ok(match answer {
        ::redis::Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        ::redis::Value::SimpleString(text) => text,
        other => format!("{other:?}"),
    })
}

fn start(plan: &Plan, count: usize) -> Result<Vec<Server>, ServerError> {
    (0..count).map(|_| Server::start(plan.clone())).collect()
}

fn follow(replica: &Server, primary: &Server) -> Result<(), ServerError> {
    ask(replica, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).map(drop)
}

fn is_synced(replica: &Server) -> bool {
    let info = ask(replica, &["INFO", "replication"]).unwrap_or_default();
    info.contains("master_link_status:up")
}

fn role(server: &Server) -> Option<String> {
    let info = ask(server, &["INFO", "replication"]).ok()?;
    info.lines().find_map(|line| line.strip_prefix("role:").map(|role| role.trim().to_owned()))
}

fn says(node: &Server, line: &str) -> bool {
    ask(node, &["CLUSTER", "INFO"]).is_ok_and(|info| info.contains(line))
}

fn watch(port: u16) -> String {
    format!(
        "sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n\
         sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}\n\
         sentinel failover-timeout {SERVICE} 3000\n"
    )
}

/// Whether a sentinel has found the replicas and the two other sentinels.
fn knows(sentinel: &Server, replicas: usize) -> bool {
    let info = ask(sentinel, &["INFO", "sentinel"]).unwrap_or_default();
    let counts: HashSet<&str> = info.split(['\r', '\n', ',']).collect();
    counts.contains(format!("slaves={replicas}").as_str()) && counts.contains("sentinels=3")
}
