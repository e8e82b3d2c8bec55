//! Where a deployment is, as its URL says it.

use std::fmt;
use std::path::PathBuf;

use crate::engines::kit::hosts::{ServerAddress, joined, servers};
use crate::error::{Error, Result};
use crate::url::{Url, decode};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// How one server is reached. It can be shown: it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RedisAddress {
    Tcp(ServerAddress),
    Unix(PathBuf),
}

/// The shape of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// One server.
    One(RedisAddress),
    /// A primary and its replicas; they say themselves who is which.
    Listed(Vec<RedisAddress>),
    /// Sentinels, which know where the primary of a service is.
    Sentinels(Vec<RedisAddress>, String),
    /// Some nodes of a cluster.
    Cluster(Vec<RedisAddress>),
}

/// Who we are. Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// What stands before the options of a URL.
pub(super) struct Deployment {
    pub(super) place: Topology,
    pub(super) login: Login,
    pub(super) database: i64,
    pub(super) tls: bool,
}

impl Deployment {
    pub(super) fn from_url(url: &Url) -> Result<Self> {
        let (tls, kind) = match url.scheme.split_once('+') {
            Some((transport, kind)) => (transport == "rediss", kind),
            None => (url.scheme == "rediss", ""),
        };
        if kind == "unix" {
            return socket(url);
        }
        let rest = url.raw.strip_prefix("//").ok_or_else(|| wrong_form(kind))?;
        let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let mut parts = place.split('/');
        let hosts = parts.next().unwrap_or_default();
        let (place, database) = match kind {
            "sentinel" => {
                let service = parts.next().filter(|name| !name.is_empty());
                let service = decode(service.ok_or_else(|| wrong_form(kind))?)?;
                (Topology::Sentinels(list(hosts, SENTINEL_PORT, kind)?, service), parts.next())
            }
            "cluster" => (Topology::Cluster(list(hosts, PORT, kind)?), parts.next()),
            _ => (plain(list(hosts, PORT, kind)?), parts.next()),
        };
        let database = database_number(database.unwrap_or_default())?;
        if parts.next().is_some() || (kind == "cluster" && database != 0) {
            return Err(wrong_form(kind));
        }
        Ok(Self { place, login: Login::parse(login)?, database, tls })
    }
}

impl Login {
    /// `user:password`, `:password` or `user`. Decoded after the split, so a
    /// password may hold any separator, percent-encoded.
    fn parse(text: &str) -> Result<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { user: given(user)?, password: given(password)? })
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(server) => write!(f, "{server}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl RedisAddress {
    /// `host:port`, as servers write it: no brackets around IPv6, a bus port
    /// or host name may follow.
    pub(super) fn told(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.split(['@', ',']).next()?.rsplit_once(':')?;
        Self::told_parts(host, port.parse().ok()?, asked)
    }

    /// A server that does not know its own host leaves it empty: it is the one
    /// that was asked.
    pub(super) fn told_parts(host: &str, port: u16, asked: &Self) -> Option<Self> {
        let host = match (host, asked) {
            ("" | "?", Self::Tcp(server)) => server.host.clone(),
            ("" | "?", Self::Unix(_)) => return None,
            (host, _) => host.trim_matches(['[', ']']).to_owned(),
        };
        Some(Self::Tcp(ServerAddress { host, port }))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(address) => write!(f, "{address}"),
            Self::Listed(all) | Self::Cluster(all) => f.write_str(&joined(all)),
            Self::Sentinels(all, service) => write!(f, "{}/{service}", joined(all)),
        }
    }
}

fn plain(mut all: Vec<RedisAddress>) -> Topology {
    if all.len() == 1 { Topology::One(all.remove(0)) } else { Topology::Listed(all) }
}

/// `redis+unix:/path?db=1` or `redis+unix://user:password@/path?db=1`.
fn socket(url: &Url) -> Result<Deployment> {
    let (login, path) = match url.raw.strip_prefix("//") {
        Some(rest) => rest.rsplit_once('@').unwrap_or(("", rest)),
        None => ("", url.raw.as_str()),
    };
    let path = given(path)?.filter(|path| path.starts_with('/'));
    let path = path.ok_or_else(|| wrong_form("unix"))?;
    Ok(Deployment {
        place: Topology::One(RedisAddress::Unix(path.into())),
        login: Login::parse(login)?,
        database: database_number(url.options.get("db")?.unwrap_or_default())?,
        tls: false,
    })
}

fn list(hosts: &str, port: u16, kind: &str) -> Result<Vec<RedisAddress>> {
    if hosts.is_empty() && kind.is_empty() {
        return Ok(vec![RedisAddress::Tcp(ServerAddress::here(port))]);
    }
    let servers = servers(hosts, port).ok_or_else(|| wrong_form(kind))?;
    Ok(servers.into_iter().map(RedisAddress::Tcp).collect())
}

fn database_number(text: &str) -> Result<i64> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| Error::invalid("the database in the engine URL is a number from 0 on"))
}

/// What is not empty, decoded.
fn given(text: &str) -> Result<Option<String>> {
    decode(text).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// The URL itself is not repeated: it may hold a password.
fn wrong_form(kind: &str) -> Error {
    let form = match kind {
        "sentinel" => "redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]",
        "cluster" => "redis+cluster://[user:password@]host[:port],host[:port]",
        "unix" => "redis+unix:/path/to.sock[?db=0] or redis+unix://user:password@/path/to.sock",
        _ => "redis://[user:password@]host[:port][,host[:port]][/db]",
    };
    Error::invalid(format!(
        "the engine URL has the form {form}; an IPv6 address stands in brackets, and '@', '/', \
         ':' or '?' in a password are percent-encoded"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Deployment> {
        Deployment::from_url(&Url::parse(url).unwrap())
    }

    fn tcp(host: &str, port: u16) -> RedisAddress {
        RedisAddress::Tcp(ServerAddress { host: host.into(), port })
    }

    #[test]
    fn one_server_is_read() {
        let full = target("rediss://me:p%40s%2Fs%3A@db.example:7000/3").unwrap();
        assert_eq!(full.place, Topology::One(tcp("db.example", 7000)));
        assert_eq!(full.login.user.as_deref(), Some("me"));
        assert_eq!(full.login.password.as_deref(), Some("p@s/s:"));
        assert_eq!((full.database, full.tls), (3, true));
        let short = target("redis://").unwrap();
        assert_eq!(short.place, Topology::One(tcp("127.0.0.1", PORT)));
        assert!(short.login == Login::default() && !short.tls);
        assert_eq!(target("redis://[::1]:7/").unwrap().place, Topology::One(tcp("::1", 7)));
        let secret = target("redis://:only@h").unwrap().login;
        assert_eq!((secret.user, secret.password.as_deref()), (None, Some("only")));
    }

    #[test]
    fn every_shape_is_read() {
        let listed = target("redis://a,b:7,[::1]/2").unwrap();
        let all = vec![tcp("a", PORT), tcp("b", 7), tcp("::1", PORT)];
        assert_eq!((listed.place, listed.database), (Topology::Listed(all), 2));
        let sentinels = target("redis+sentinel://a,b:7/the%20one/1").unwrap();
        let all = vec![tcp("a", SENTINEL_PORT), tcp("b", 7)];
        assert_eq!(sentinels.place, Topology::Sentinels(all, "the one".into()));
        assert_eq!(sentinels.database, 1);
        let cluster = target("rediss+cluster://u:p@a,b").unwrap();
        assert_eq!(cluster.place, Topology::Cluster(vec![tcp("a", PORT), tcp("b", PORT)]));
        assert!(cluster.tls);
        for socket in ["redis+unix:/run/r%20.sock?db=1", "redis+unix://u:p@/run/r%20.sock?db=1"] {
            let socket = target(socket).unwrap();
            assert_eq!(socket.place, Topology::One(RedisAddress::Unix("/run/r .sock".into())));
            assert_eq!(socket.database, 1);
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for bad in [
            "redis:host",
            "redis://:hunter2@h:port/",
            "redis://:hunter2@h/0/1",
            "redis://:hunter2@h/x",
            "redis://:hunter2@h/-1",
            "redis://:hunter2@[::1",
            "redis://:hunter2@a,,b",
            "redis+sentinel://:hunter2@a,b",
            "redis+cluster://:hunter2@a/1",
            "redis+cluster://:hunter2@",
            "redis+unix:relative.sock",
        ] {
            let Err(error) = target(bad) else { panic!("{bad} was taken") };
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert_eq!(error.kind(), crate::error::ErrorKind::Invalid);
        }
    }

    #[test]
    fn servers_write_addresses_in_their_own_way() {
        let asked = tcp("seed", 1);
        let told = |text| RedisAddress::told(text, &asked);
        assert_eq!(told("10.0.0.1:7"), Some(tcp("10.0.0.1", 7)));
        assert_eq!(told("::1:7"), Some(tcp("::1", 7)));
        assert_eq!(told(":7"), Some(tcp("seed", 7)));
        assert_eq!(told("nonsense"), None);
    }
}
