//! What an etcd URL asks for.

use std::time::Duration;

use crate::engines::consensus::RecordFormat;
use crate::engines::kit::hosts::{ServerAddress, joined, servers};
use crate::engines::kit::tls::Files;
use crate::error::{Error, Result};
use crate::url::{Options, Url, decode};

const PORT: u16 = 2379;
/// How long a connection may take to stand. Short enough that a request outlives
/// one endpoint that does not answer.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a request may take, an election of a new leader included.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How the name of a lock becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyNames {
    /// Below the root, escaped: no name is part of another.
    Escaped,
    /// As it is, so that Go's concurrency package and etcdctl share it.
    Raw,
}

/// Who we are. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct EtcdLogin {
    pub(super) user: String,
    pub(super) password: String,
}

/// Everything that a URL says.
#[derive(Clone)]
pub(super) struct EtcdSettings {
    pub(super) hosts: Vec<ServerAddress>,
    pub(super) login: Option<EtcdLogin>,
    pub(super) tls: Option<Files>,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
    /// What our own keys begin with.
    pub(super) root: String,
    pub(super) names: KeyNames,
    pub(super) records: RecordFormat,
}

impl EtcdSettings {
    pub(super) fn from_url(url: &Url) -> Result<Self> {
        let options = &url.options;
        let tls = url.scheme == "etcds";
        check_tls(options, tls)?;
        let rest = url.raw.strip_prefix("//").ok_or_else(wrong_form)?;
        let (login, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
        Ok(Self {
            hosts: list(hosts.strip_suffix('/').unwrap_or(hosts))?,
            login: EtcdLogin::parse(login)?,
            tls: if tls { Some(Files::from_options(options)?) } else { None },
            connect: options.duration("connect")?.unwrap_or(CONNECT),
            timeout: options.duration("timeout")?.unwrap_or(TIMEOUT),
            root: root(options)?,
            names: names(options)?,
            records: RecordFormat::of(options)?,
        })
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}", joined(&self.hosts))
    }
}

impl EtcdLogin {
    /// `user:password`, decoded after the split.
    fn parse(text: &str) -> Result<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let (user, password) = text.split_once(':').ok_or_else(wrong_form)?;
        let login = Self { user: decode(user)?, password: decode(password)? };
        if login.user.is_empty() { Err(wrong_form()) } else { Ok(Some(login)) }
    }
}

fn list(hosts: &str) -> Result<Vec<ServerAddress>> {
    if hosts.is_empty() {
        return Ok(vec![ServerAddress::here(PORT)]);
    }
    servers(hosts, PORT).ok_or_else(wrong_form)
}

/// Refuses options that say nothing without TLS.
fn check_tls(options: &Options, tls: bool) -> Result<()> {
    for key in Files::OPTIONS {
        if !tls && options.get(key)?.is_some() {
            return Err(Error::invalid(format!("option {key:?} is for etcds:// addresses")));
        }
    }
    Ok(())
}

fn root(options: &Options) -> Result<String> {
    let root = options.get("root")?.unwrap_or("leasehold");
    let part = |part: &str| !part.is_empty() && !part.chars().any(char::is_control);
    if root.split('/').all(part) {
        return Ok(root.to_owned());
    }
    Err(Error::invalid("option \"root\" takes a path such as leasehold or team/leasehold"))
}

fn names(options: &Options) -> Result<KeyNames> {
    match options.get("names")? {
        None | Some("escaped") => Ok(KeyNames::Escaped),
        Some("raw") => Ok(KeyNames::Raw),
        Some(_) => Err(Error::invalid("option \"names\" takes escaped or raw")),
    }
}

/// The URL itself is not repeated: it may hold a password.
fn wrong_form() -> Error {
    Error::invalid(
        "the engine URL has the form etcd://[user:password@]host[:port],host[:port]; an IPv6 \
         address stands in brackets, and '@', '/', ':' or '?' in a password are percent-encoded",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<EtcdSettings> {
        EtcdSettings::from_url(&Url::parse(url).unwrap())
    }

    #[test]
    fn every_part_is_read() {
        let full = read("etcds://me:p%40s%3A@a,b:7,[::1]/?timeout=1s&root=x/y&names=raw").unwrap();
        assert_eq!(full.endpoint(), "etcds://a:2379,b:7,[::1]:2379");
        let login = full.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "p@s:"));
        assert_eq!((full.timeout, full.root.as_str()), (Duration::from_secs(1), "x/y"));
        assert_eq!(full.names, KeyNames::Raw);
        let short = read("etcd://").unwrap();
        assert_eq!(short.endpoint(), "etcd://127.0.0.1:2379");
        assert!(short.login.is_none() && short.tls.is_none() && short.names == KeyNames::Escaped);
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_repeating_a_password() {
        for bad in [
            "etcd:host",
            "etcd://secret@h",
            "etcd://:secret@h",
            "etcd://h,,i",
            "etcd://h?ca=secret",
            "etcd://h?root=/secret",
            "etcd://h?root=",
            "etcd://h?names=secret",
            "etcd://h?records=secret",
        ] {
            let error = read(bad).map(|settings| settings.endpoint()).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
