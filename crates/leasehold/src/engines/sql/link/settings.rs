//! What a database URL asks for, apart from the strategy.

use std::time::Duration;

use super::Dialect;
use super::address::Target;
use crate::error::{Error, Result};
use crate::url::{Options, Url};

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a statement may take to be answered.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest that can be asked for: a freed name is forgotten after a minute,
/// and a statement must be dead long before.
const LONGEST: Duration = Duration::from_secs(20);
const CONNECTIONS: usize = 4;

/// Everything that the way to a server needs to know.
#[derive(Clone)]
pub(in crate::engines::sql) struct Settings {
    pub(super) dialect: Dialect,
    pub(super) target: Target,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
    /// How many connections statements may share.
    pub(super) connections: usize,
    /// Whether a pooler stands in between, if the user says so.
    pub(super) pooler: Option<bool>,
}

impl Settings {
    pub(in crate::engines::sql) fn from_url(url: &Url) -> Result<Self> {
        let dialect = Dialect::of(&url.scheme);
        let options = &url.options;
        Ok(Self {
            dialect,
            target: Target::from_url(url, dialect)?,
            connect: options.duration("connect")?.unwrap_or(CONNECT),
            timeout: timeout(options)?,
            connections: options.number("connections")?.unwrap_or(CONNECTIONS),
            pooler: match options.get("pooler")? {
                None => None,
                Some(_) => Some(options.flag("pooler")?),
            },
        })
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> String {
        self.target.endpoint(self.dialect)
    }
}

fn timeout(options: &Options) -> Result<Duration> {
    let span = options.duration("timeout")?.unwrap_or(TIMEOUT);
    if span.is_zero() || span > LONGEST {
        return Err(Error::invalid("option \"timeout\" takes a time up to 20s"));
    }
    Ok(span)
}
