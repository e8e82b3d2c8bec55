//! Deployments: real servers, with a way to each that can be cut.

use std::time::Duration;

use crate::contest::Checked;
use crate::proxy::FaultProxy;
use crate::server::{Fleet, Server, ask};

/// The deployments that can be soaked.
pub const DEPLOYMENTS: [&str; 8] =
    ["redis", "redlock3", "redlock5", "cluster", "postgres", "mysql", "etcd", "zookeeper"];

/// Waiters keep at it whatever happens.
const OPTIONS: &str = "timeout=1s&retry=forever:20ms";

/// One of them, running.
#[derive(Debug)]
pub struct Deployment {
    servers: Servers,
    ways: Vec<FaultProxy>,
    url: String,
}

#[derive(Debug)]
enum Servers {
    Single(Vec<Server>),
    Cluster(Fleet),
}

impl Deployment {
    /// Starts its servers.
    ///
    /// # Errors
    ///
    /// When there is no such deployment (names those there are), or a server
    /// does not start.
    pub fn start(name: &str) -> Checked<Self> {
        match name {
            "redis" => Self::single(Server::redis()?),
            "postgres" => Self::single(Server::postgres()?),
            "mysql" => Self::single(Server::mariadb()?),
            "etcd" => Self::single(Server::etcd()?),
            "zookeeper" => Self::single(Server::zookeeper()?),
            "redlock3" => Self::redlock(3),
            "redlock5" => Self::redlock(5),
            "cluster" => Self::cluster(),
            other => {
                Err(format!("there is no {other:?}; there are {}", DEPLOYMENTS.join(", ")).into())
            }
        }
    }

    fn single(server: Server) -> Checked<Self> {
        let way = FaultProxy::to(server.addr())?;
        let url = with_options(&server.url_via(way.addr()));
        Ok(Self { servers: Servers::Single(vec![server]), ways: vec![way], url })
    }

    /// Nodes that stand still may forget nothing, so their counters are kept.
    fn redlock(nodes: usize) -> Checked<Self> {
        let servers: Vec<Server> = (0..nodes).map(|_| Server::redis()).collect::<Result<_, _>>()?;
        let ways: Vec<FaultProxy> =
            servers.iter().map(|server| FaultProxy::to(server.addr())).collect::<Result<_, _>>()?;
        let hosts: Vec<String> = ways.iter().map(|way| way.addr().to_string()).collect();
        let url = format!("redlock://{}?quarantine=0s&timeout=1s", hosts.join(","));
        Ok(Self { servers: Servers::Single(servers), ways, url })
    }

    /// Redirections name the nodes themselves, so no proxy stands between; and a
    /// pause is no failover, which may lose what was not replicated yet.
    fn cluster() -> Checked<Self> {
        let mut fleet = Fleet::cluster()?;
        for server in fleet.servers() {
            ask(server, &["CONFIG", "SET", "cluster-node-timeout", "60000"])?;
        }
        let url = with_options(&fleet.url());
        Ok(Self { servers: Servers::Cluster(fleet), ways: Vec::new(), url })
    }

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The ways to its servers.
    #[must_use]
    pub fn ways(&self) -> &[FaultProxy] {
        &self.ways
    }

    /// Its servers.
    pub fn servers(&mut self) -> &mut [Server] {
        match &mut self.servers {
            Servers::Single(servers) => servers,
            Servers::Cluster(fleet) => fleet.servers(),
        }
    }

    /// One server ends all connections to its clients, where no way leads there that
    /// could be cut; how many.
    pub(super) fn hang_up(&mut self) -> Checked<u64> {
        let server = any(self.servers())?;
        let ended = ["normal", "pubsub"].map(|kind| ask(server, &["CLIENT", "KILL", "TYPE", kind]));
        let mut all = 0;
        for count in ended {
            // It says `int(3)`.
            let count = count?;
            all += count.trim_matches(|it: char| !it.is_ascii_digit()).parse::<u64>()?;
        }
        Ok(all)
    }

    /// One server answers nothing for this long, where no way leads there.
    pub(super) fn keep_waiting(&mut self, span: Duration) -> Checked {
        let server = any(self.servers())?;
        ask(server, &["CLIENT", "PAUSE", &span.as_millis().to_string(), "ALL"])?;
        Ok(())
    }

    /// Everything runs and passes again.
    pub(super) fn heal(&mut self) -> Checked {
        self.ways.iter().for_each(FaultProxy::heal);
        self.servers().iter_mut().try_for_each(Server::resume)?;
        Ok(())
    }
}

fn any(servers: &[Server]) -> Checked<&Server> {
    fastrand::choice(servers).ok_or_else(|| "there is no server".into())
}

fn with_options(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{OPTIONS}")
}
