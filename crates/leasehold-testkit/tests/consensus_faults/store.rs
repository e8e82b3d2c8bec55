//! A ZooKeeper or an etcd, for faults that both have.

use leasehold_testkit::contest::Checked;
use leasehold_testkit::server::{Ensemble, Server};
use leasehold_testkit::znodes::Znodes;

use super::NAME;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Zookeeper,
    Etcd,
}

impl Store {
    pub(crate) const BOTH: [Self; 2] = [Self::Zookeeper, Self::Etcd];

    pub(crate) fn start(self) -> Checked<Server> {
        Ok(match self {
            Self::Zookeeper => Server::zookeeper()?,
            Self::Etcd => Server::etcd()?,
        })
    }

    pub(crate) fn ensemble(self) -> Checked<Ensemble> {
        Ok(match self {
            Self::Zookeeper => Ensemble::zookeeper(3)?,
            Self::Etcd => Ensemble::etcd(3)?,
        })
    }

    /// The nodes or keys in line for the name, in no order.
    pub(crate) fn line(self, server: &Server) -> Checked<Vec<String>> {
        if self == Self::Zookeeper {
            let nodes = Znodes::connect(server.addr())?.children(NAME)?;
            return Ok(nodes.iter().map(|node| format!("{NAME}/{node}")).collect());
        }
        let keys = server.tell(&["get", "--prefix", "--keys-only", &format!("{NAME}/")])?;
        Ok(keys.lines().filter(|key| !key.is_empty()).map(str::to_owned).collect())
    }

    /// The change that made a node or key, if it is there.
    pub(crate) fn made(self, server: &Server, key: &str) -> Checked<Option<i64>> {
        if self == Self::Zookeeper {
            return Ok(Znodes::connect(server.addr())?.stat(key)?.map(|stat| stat.czxid));
        }
        let answer = server.tell(&["get", key, "-w", "json"])?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        Ok(answer["kvs"][0]["create_revision"].as_i64())
    }

    /// Removes a node or key, as an operator would.
    pub(crate) fn remove(self, server: &Server, key: &str) -> Checked {
        let removed = match self {
            Self::Zookeeper => Znodes::connect(server.addr())?.remove(key)?,
            Self::Etcd => server.tell(&["del", key])? == "1",
        };
        if removed { Ok(()) } else { Err(format!("{key} was not there").into()) }
    }
}
