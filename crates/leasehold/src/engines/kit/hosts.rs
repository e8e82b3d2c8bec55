//! The servers that a URL names: `host,host:port,[::1]:port`.

use std::fmt;

use crate::url::host_and_port;

/// One server. It can be shown: it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engines) struct ServerAddress {
    pub(in crate::engines) host: String,
    pub(in crate::engines) port: u16,
}

impl ServerAddress {
    /// Whoever names no server means the one on this machine.
    #[cfg(any(feature = "redis", feature = "etcd"))]
    pub(in crate::engines) fn here(port: u16) -> Self {
        Self { host: "127.0.0.1".into(), port }
    }

    /// Whether it can be reached from this machine alone.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(in crate::engines) fn is_local(&self) -> bool {
        ["127.0.0.1", "localhost", "::1"].contains(&self.host.as_str())
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// The servers of a list, each with its own port or with this one. `None` if one
/// of them is none: what a list looks like in a URL is told by each engine.
pub(in crate::engines) fn servers(list: &str, port: u16) -> Option<Vec<ServerAddress>> {
    let one = |text| host_and_port(text, port).map(|(host, port)| ServerAddress { host, port });
    list.split(',').map(one).collect()
}

/// A list again, as people read it.
pub(in crate::engines) fn joined(servers: &[impl fmt::Display]) -> String {
    let shown: Vec<String> = servers.iter().map(ToString::to_string).collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_of_a_list_is_read_and_shown_with_its_port() {
        let found = servers("a,b:7,[::1],[::2]:8,c%2Fd:,e:", 5).unwrap();
        assert_eq!(joined(&found), "a:5,b:7,[::1]:5,[::2]:8,c/d:5,e:5");
        assert_eq!(found[1], ServerAddress { host: "b".into(), port: 7 });
        assert_eq!(found[2].host, "::1", "the brackets are not part of it");
    }

    #[test]
    fn a_list_with_one_that_is_no_server_is_none() {
        for bad in ["", ",", "a,", ",a", "a,,b", "a:x", "a:70000", ":7", "[::1", "[::1]7", "%zz"] {
            assert_eq!(servers(bad, 5), None, "{bad}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn the_server_on_this_machine_is_local() {
        assert!(ServerAddress::here(5).is_local());
        assert!(servers("localhost,[::1]:7", 5).unwrap().iter().all(ServerAddress::is_local));
        assert!(!servers("localhost.example", 5).unwrap()[0].is_local());
    }
}
