//! What a Redis URL asks for.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::url::{Options, Url, decode};

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a command may take to be answered.
const TIMEOUT: Duration = Duration::from_secs(2);
const PORT: u16 = 6379;

/// Which keys a lease is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Our own: every mode, queue, hand-over, fence.
    Native,
    /// A token in a string, as many libraries have it.
    String,
    /// Redisson's.
    Redisson,
}

impl Layout {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::String => "string",
            Self::Redisson => "redisson",
        }
    }
}

/// How a waiter learns that its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeBy {
    /// The releaser tells it.
    Push,
    /// It asks again, ever more slowly.
    Spin,
}

/// Everything that a URL says.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    pub(super) layout: Layout,
    pub(super) wake: WakeBy,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
}

impl Settings {
    pub(super) fn from_url(url: &Url) -> Result<Self> {
        let rest = url.raw.strip_prefix("//").unwrap_or(&url.raw);
        let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let given =
            |text: &str| decode(text).map(|text| Some(text).filter(|text| !text.is_empty()));
        Ok(Self {
            host: given(host)?.unwrap_or_else(|| "127.0.0.1".into()),
            port: number(port, "port", PORT)?,
            user: given(user)?,
            password: given(password)?,
            database: number(database, "database", 0)?,
            layout: layout(&url.options)?,
            wake: wake(&url.options)?,
            connect: url.options.duration("connect")?.unwrap_or(CONNECT),
            timeout: url.options.duration("timeout")?.unwrap_or(TIMEOUT),
        })
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> String {
        format!("redis://{}:{}/{}", self.host, self.port, self.database)
    }
}

fn number<N: std::str::FromStr>(text: &str, what: &str, otherwise: N) -> Result<N> {
    if text.is_empty() {
        return Ok(otherwise);
    }
    text.parse().map_err(|_| Error::invalid(format!("the {what} in the engine URL is no number")))
}

fn layout(options: &Options) -> Result<Layout> {
    match options.get("layout")? {
        None | Some("native") => Ok(Layout::Native),
        Some("string") => Ok(Layout::String),
        Some("redisson") => Ok(Layout::Redisson),
        Some(_) => Err(Error::invalid("option \"layout\" takes native, string or redisson")),
    }
}

fn wake(options: &Options) -> Result<WakeBy> {
    match options.get("wake")? {
        None | Some("push") => Ok(WakeBy::Push),
        Some("spin") => Ok(WakeBy::Spin),
        Some(_) => Err(Error::invalid("option \"wake\" takes push or spin")),
    }
}
