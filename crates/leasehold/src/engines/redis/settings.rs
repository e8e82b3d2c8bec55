//! What a Redis URL asks for.

use std::time::Duration;

use super::address::{Deployment, Login, RedisAddress, Topology};
use crate::engines::kit::tls::Files;
use crate::error::{Error, Result};
use crate::url::{Options, Url};

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a command may take to be answered.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Which keys a lease is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisLayout {
    /// Our own: every mode, queue, hand-over, fence.
    Native,
    /// A token in a string, as many libraries have it.
    String,
    /// Redisson's.
    Redisson,
}

impl RedisLayout {
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
pub(in crate::engines) struct RedisSettings {
    pub(super) place: Topology,
    pub(super) login: Login,
    /// Who we are to the sentinels.
    pub(super) sentinel_login: Login,
    pub(super) database: i64,
    pub(super) tls: Option<Files>,
    /// How many replicas shall have a write before it is answered.
    pub(super) replicas: Option<u64>,
    pub(super) layout: RedisLayout,
    pub(super) wake: WakeBy,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
}

impl RedisSettings {
    pub(in crate::engines) fn from_url(url: &Url) -> Result<Self> {
        let Deployment { place, login, database, tls } = Deployment::from_url(url)?;
        let options = &url.options;
        check_kinds(options, &place, tls)?;
        Ok(Self {
            sentinel_login: Login {
                user: options.get("sentinel_user")?.map(str::to_owned),
                password: options.get("sentinel_password")?.map(str::to_owned),
            },
            tls: if tls { Some(Files::from_options(options)?) } else { None },
            replicas: options.number("replicas")?,
            layout: layout(options)?,
            wake: wake(options)?,
            connect: options.duration("connect")?.unwrap_or(CONNECT),
            timeout: options.duration("timeout")?.unwrap_or(TIMEOUT),
            place,
            login,
            database,
        })
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> String {
        let tls = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.place {
            Topology::One(RedisAddress::Unix(path)) => format!("redis+unix:{}", path.display()),
            Topology::One(_) | Topology::Listed(_) => {
                format!("{tls}://{}/{}", self.place, self.database)
            }
            Topology::Sentinels(..) => format!("{tls}+sentinel://{}/{}", self.place, self.database),
            Topology::Cluster(_) => format!("{tls}+cluster://{}", self.place),
        }
    }
}

/// Refuses options that say nothing at this kind of address.
fn check_kinds(options: &Options, place: &Topology, tls: bool) -> Result<()> {
    let sentinels = matches!(place, Topology::Sentinels(..));
    let socket = matches!(place, Topology::One(RedisAddress::Unix(_)));
    for (keys, fits, needs) in [
        (&Files::OPTIONS[..], tls, "rediss:// addresses"),
        (&["sentinel_user", "sentinel_password"], sentinels, "redis+sentinel:// addresses"),
        (&["db"], socket, "redis+unix: addresses; elsewhere the database follows the host"),
    ] {
        for key in keys {
            if !fits && options.get(key)?.is_some() {
                return Err(Error::invalid(format!("option {key:?} is for {needs}")));
            }
        }
    }
    Ok(())
}

fn layout(options: &Options) -> Result<RedisLayout> {
    match options.get("layout")? {
        None | Some("native") => Ok(RedisLayout::Native),
        Some("string") => Ok(RedisLayout::String),
        Some("redisson") => Ok(RedisLayout::Redisson),
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
