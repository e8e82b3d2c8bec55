//! What a database URL asks for, apart from the strategy.

use std::time::Duration;

use super::address::DatabaseTarget;
use crate::engines::database::dialect::{self, Family};
use crate::engines::kit::tls::Files;
use crate::error::{Error, Result};
use crate::url::{Options, Url};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionUse {
    /// Short statements of many.
    Shared,
    /// Whatever its owner likes, for as long as it likes.
    Own,
}

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a statement may take to be answered.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest that can be asked for: a freed name is forgotten after a minute,
/// and a statement must be dead long before.
const LONGEST: Duration = Duration::from_secs(20);

/// Everything that the way to a server needs to know.
#[derive(Clone)]
pub(crate) struct DatabaseSettings {
    pub(crate) family: &'static dyn Family,
    pub(crate) target: DatabaseTarget,
    pub(crate) tls: Tls,
    pub(crate) connect: Duration,
    pub(crate) timeout: Duration,
    /// How many connections statements may share, if the user says so.
    pub(crate) connections: Option<usize>,
    /// Whether a pooler stands in between, if the user says so.
    pub(crate) pooler: Option<bool>,
    /// Whether several servers that take writes are taken as they are.
    pub(crate) rivals: bool,
    /// Whether a server keeps to itself what is done there, also in a cluster:
    /// advisory locks are never copied.
    pub(crate) apart: bool,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encrypt {
    Never,
    /// If the server can.
    IfOffered,
    Always,
}

/// How a connection is encrypted.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) encrypt: Encrypt,
    /// Whether the server has to prove who it is.
    pub(crate) verify: bool,
    pub(crate) files: Files,
}

impl DatabaseSettings {
    pub(crate) fn from_url(url: &Url) -> Result<Self> {
        let family = dialect::of_scheme(&url.scheme);
        let options = &url.options;
        Ok(Self {
            family,
            target: DatabaseTarget::from_url(url, family)?,
            tls: Tls::from_options(options)?,
            connect: options.duration("connect")?.unwrap_or(CONNECT),
            timeout: timeout(options)?,
            connections: options.number("connections")?,
            pooler: match options.get("pooler")? {
                None => None,
                Some(_) => Some(options.flag("pooler")?),
            },
            rivals: match options.get("rivals")? {
                None | Some("refuse") => false,
                Some("allow") => true,
                Some(_) => return Err(Error::invalid("option \"rivals\" takes refuse or allow")),
            },
            apart: options.get("strategy")? == Some("advisory"),
        })
    }

    /// Where it is, without secrets.
    pub(crate) fn endpoint(&self) -> String {
        self.target.endpoint(self.family)
    }

    /// How long the server may work on a statement: it is dead before we stop
    /// waiting for it.
    pub(crate) fn work(&self) -> Duration {
        self.timeout * 3 / 4
    }

    /// How long a statement may wait for a lock of another.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout / 4
    }
}

impl Tls {
    /// A server has to prove who it is if the user says how.
    fn from_options(options: &Options) -> Result<Self> {
        let files = Files::from_options(options)?;
        let (encrypt, verify) = match options.get("sslmode")? {
            None if files.ca.is_some() || files.own.is_some() => (Encrypt::Always, true),
            None | Some("prefer") => (Encrypt::IfOffered, false),
            Some("disable") => (Encrypt::Never, false),
            Some("require") => (Encrypt::Always, false),
            Some("verify-full") => (Encrypt::Always, true),
            Some(_) => {
                let valid = "option \"sslmode\" takes disable, prefer, require or verify-full";
                return Err(Error::invalid(valid));
            }
        };
        for key in Files::OPTIONS {
            if encrypt != Encrypt::Always && options.get(key)?.is_some() {
                let needs = format!("option {key:?} needs sslmode=require or verify-full");
                return Err(Error::invalid(needs));
            }
        }
        Ok(Self { encrypt, verify: verify || files.ca.is_some(), files })
    }
}

fn timeout(options: &Options) -> Result<Duration> {
    let span = options.duration("timeout")?.unwrap_or(TIMEOUT);
    if span.is_zero() || span > LONGEST {
        return Err(Error::invalid("option \"timeout\" takes a time up to 20s"));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(query: &str) -> Result<DatabaseSettings> {
        DatabaseSettings::from_url(&Url::parse(&format!("postgres://me@a/shop?{query}")).unwrap())
    }

    #[test]
    fn encryption_is_checked_as_far_as_asked() {
        let tls = |query| settings(query).map(|it| (it.tls.encrypt, it.tls.verify));
        assert_eq!(tls("").unwrap(), (Encrypt::IfOffered, false));
        assert_eq!(tls("sslmode=require").unwrap(), (Encrypt::Always, false));
        assert_eq!(tls("sslmode=require&ca=x").unwrap(), (Encrypt::Always, true));
        assert_eq!(tls("ca=x").unwrap(), (Encrypt::Always, true));
        for bad in ["sslmode=disable&ca=x", "sslmode=maybe", "cert=x"] {
            assert!(tls(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_statement_is_dead_before_its_row_is_forgotten() {
        for bad in ["timeout=0ms", "timeout=21s"] {
            assert!(settings(bad).is_err(), "{bad}");
        }
        let fine = settings("timeout=4s").unwrap();
        assert!(fine.patience() < fine.work() && fine.work() < fine.timeout);
    }
}
