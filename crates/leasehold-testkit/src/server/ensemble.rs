//! Several servers that agree on everything: ZooKeeper or etcd.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::member::Member;
use super::{Plan, READY, Server, ServerError, TICK, free_ports, several};

/// How long they may take to agree.
const AGREE: Duration = Duration::from_secs(60);

/// An ensemble of real servers. All end with its value.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
}

impl Ensemble {
    /// So many ZooKeeper servers.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is missing, or they do not agree on a leader.
    pub fn zookeeper(count: usize) -> Result<Self, ServerError> {
        Self::start(&Plan::zookeeper(), count)
    }

    /// So many members of an etcd cluster.
    ///
    /// # Errors
    ///
    /// When `etcd` is missing, or they do not agree on a leader.
    pub fn etcd(count: usize) -> Result<Self, ServerError> {
        Self::start(&Plan::etcd(), count)
    }

    /// So many servers as this plan of a ZooKeeper or an etcd says.
    ///
    /// # Errors
    ///
    /// When they do not start, or do not agree on a leader.
    pub fn start(plan: &Plan, count: usize) -> Result<Self, ServerError> {
        several(|| Self::attempt(plan, count))
    }

    fn attempt(plan: &Plan, count: usize) -> Result<Self, ServerError> {
        let free = free_ports(plan.ports() * count)?;
        let ports: Vec<Vec<u16>> = free.chunks(plan.ports()).map(<[u16]>::to_vec).collect();
        let member = |at| Member { at, ports: ports.clone() };
        let servers = (0..count).map(|at| Server::member(plan.clone(), member(at)));
        let mut ensemble = Self { servers: servers.collect::<Result<_, _>>()? };
        ensemble.start_all()?;
        Ok(ensemble)
    }

    /// The URL that names all of them.
    #[must_use]
    pub fn url(&self) -> String {
        let first = &self.servers[0];
        first.url().replace(&first.addr().to_string(), &self.hosts())
    }

    /// `HOST:PORT` of each, with commas between.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.servers.iter().map(|server| server.addr().to_string()).collect::<Vec<_>>().join(",")
    }

    /// Its servers; each can be stopped, killed, paused and started again.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// Starts those that do not run, and waits until all serve. One alone could
    /// not: most of them have to be there.
    ///
    /// # Errors
    ///
    /// When one does not get ready.
    pub fn start_all(&mut self) -> Result<(), ServerError> {
        for server in &mut self.servers {
            if !server.is_running() {
                server.spawn()?;
            }
        }
        for server in &mut self.servers {
            if !server.ready_within(READY)? {
                return Err(server.failure("ended before it was ready"));
            }
        }
        Ok(())
    }

    /// Kills all at once, as a power cut would.
    ///
    /// # Errors
    ///
    /// When one cannot be killed.
    pub fn kill_all(&mut self) -> Result<(), ServerError> {
        self.pause_all()?;
        self.servers.iter_mut().try_for_each(Server::kill)
    }

    /// Stops all in their tracks.
    ///
    /// # Errors
    ///
    /// When one cannot be signalled.
    pub fn pause_all(&mut self) -> Result<(), ServerError> {
        self.servers.iter_mut().try_for_each(Server::pause)
    }

    /// Lets all go on.
    ///
    /// # Errors
    ///
    /// When one cannot be signalled.
    pub fn resume_all(&mut self) -> Result<(), ServerError> {
        self.servers.iter_mut().try_for_each(Server::resume)
    }

    /// Which server leads the others now, once one does.
    ///
    /// # Errors
    ///
    /// When none does in time.
    pub fn leader(&mut self) -> Result<usize, ServerError> {
        let end = Instant::now() + AGREE;
        while Instant::now() < end {
            let runs = |server: &mut Server| server.is_running() && server.leads();
            if let Some(leader) = self.servers.iter_mut().position(runs) {
                return Ok(leader);
            }
            thread::sleep(TICK);
        }
        Err(ServerError("no server leads the others".into()))
    }

    /// Kills the leader as a power cut would, and says which one it was.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be killed.
    pub fn kill_leader(&mut self) -> Result<usize, ServerError> {
        let leader = self.leader()?;
        self.servers[leader].kill()?;
        Ok(leader)
    }

    /// `etcdctl` for all members, before its first word.
    ///
    /// # Errors
    ///
    /// When it is not installed.
    pub fn etcdctl(&self) -> Result<Command, ServerError> {
        self.servers[0].etcdctl_at(&self.hosts())
    }
}
