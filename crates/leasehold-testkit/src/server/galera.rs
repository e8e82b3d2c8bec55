//! MariaDB servers that are one cluster.

use std::thread;
use std::time::Instant;

use super::{Plan, READY, Server, ServerError, TICK, free_ports, several};

/// Where the package puts what makes a cluster of them.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Two servers that both take writes and certify each other's. Both end with the
/// value.
#[derive(Debug)]
pub struct Galera {
    /// Began the cluster.
    pub first: Server,
    /// Joined it.
    pub second: Server,
}

impl Galera {
    /// A cluster of two.
    ///
    /// # Errors
    ///
    /// When a server does not start, or the second does not get in.
    pub fn start() -> Result<Self, ServerError> {
        several(Self::attempt)
    }

    fn attempt() -> Result<Self, ServerError> {
        let ports = free_ports(6)?;
        let (here, there) = ports.split_at(3);
        let first = Plan::mariadb().args(args(here, None)).args(["--wsrep-new-cluster"]);
        let first = Server::start(first)?;
        let second = Server::start(Plan::mariadb().args(args(there, Some(here[0]))))?;
        let galera = Self { first, second };
        galera.until_both_are_in()?;
        Ok(galera)
    }

    /// The URL that names both.
    #[must_use]
    pub fn url(&self) -> String {
        let both = format!("{},{}", self.first.addr(), self.second.addr());
        self.first.url().replace(&self.first.addr().to_string(), &both)
    }

    fn until_both_are_in(&self) -> Result<(), ServerError> {
        let size = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                    WHERE VARIABLE_NAME = 'wsrep_cluster_size'";
        let end = Instant::now() + READY;
        while Instant::now() < end {
            if self.first.sql(size)? == "2" && self.second.sql(size)? == "2" {
                return Ok(());
            }
            thread::sleep(TICK);
        }
        Err(ServerError("the servers do not make a cluster".into()))
    }
}

/// The ports are for the group, for what was missed, and for a whole copy.
fn args(ports: &[u16], join: Option<u16>) -> Vec<String> {
    let [group, missed, copy] = ports else { return Vec::new() };
    let peers = join.map(|port| format!("127.0.0.1:{port}")).unwrap_or_default();
    let options = format!(
        "gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{missed};\
         base_host=127.0.0.1;base_port={group};gcache.size=8M"
    );
    vec![
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={PROVIDER}"),
        format!("--wsrep-cluster-address=gcomm://{peers}"),
        format!("--wsrep-provider-options={options}"),
        "--wsrep-node-address=127.0.0.1".into(),
        "--wsrep-sst-method=rsync".into(),
        format!("--wsrep-sst-receive-address=127.0.0.1:{copy}"),
        "--binlog-format=ROW".into(),
        "--innodb-autoinc-lock-mode=2".into(),
    ]
}
