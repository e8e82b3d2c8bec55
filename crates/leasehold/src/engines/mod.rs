//! The engines, one row each.

#[cfg(any(feature = "zookeeper", feature = "etcd"))]
mod consensus;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod database;
#[cfg(feature = "etcd")]
mod etcd;
mod kit;
pub(crate) mod memory;
#[cfg(feature = "quorum")]
mod quorum;
#[cfg(feature = "redis")]
mod redis;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use kit::lifeline::lifelines;
#[cfg(feature = "records")]
pub(crate) use kit::watch_queue::WatchQueue;
pub use schema::schema;

#[cfg(all(leasehold_sim, feature = "quorum"))]
pub(crate) use quorum::over;

use std::sync::Arc;

use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::url::Url;

/// An engine on its way.
type Opened = BoxFuture<Result<Arc<dyn Engine>>>;

/// What has to be known of an engine before it is opened.
pub(crate) struct EngineRow {
    pub(crate) scheme: &'static str,
    /// Other schemes of the same engine: other ways to reach it.
    pub(crate) ways: &'static [&'static str],
    /// Whether its feature is on.
    pub(crate) built: bool,
    /// The options it takes in its URL.
    pub(crate) options: &'static [&'static str],
    pub(crate) open: fn(Url) -> Opened,
}

/// What every strategy on a database server takes, and what only some do.
const SERVER_OPTIONS: &[&str] = &[
    "strategy",
    "connect",
    "timeout",
    "connections",
    "sslmode",
    "ca",
    "cert",
    "cert_key",
    "pooler",
    "rivals",
    "schema",
    "prefix",
    "wake",
    "poll",
    "poll_max",
    "table",
    "column",
    "token",
    "expires",
    "owner",
];

static TABLE: [EngineRow; 8] = [
    EngineRow {
        scheme: "etcd",
        ways: &["etcds"],
        built: cfg!(feature = "etcd"),
        options: &["connect", "timeout", "root", "names", "records", "ca", "cert", "cert_key"],
        open: open_etcd,
    },
    EngineRow { scheme: "memory", ways: &[], built: true, options: &[], open: open_memory },
    EngineRow {
        scheme: "mysql",
        ways: &["mariadb"],
        built: cfg!(feature = "mysql"),
        options: SERVER_OPTIONS,
        open: open_mysql,
    },
    EngineRow {
        scheme: "postgres",
        ways: &["postgresql"],
        built: cfg!(feature = "postgres"),
        options: SERVER_OPTIONS,
        open: open_postgres,
    },
    EngineRow {
        scheme: "quorum",
        ways: &["redlock"],
        built: cfg!(feature = "quorum"),
        options: &["node_timeout", "poll", "quarantine", "key", "connect", "timeout"],
        open: open_quorum,
    },
    EngineRow {
        scheme: "redis",
        ways: &[
            "rediss",
            "redis+unix",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ],
        built: cfg!(feature = "redis"),
        options: &[
            "layout",
            "wake",
            "connect",
            "timeout",
            "replicas",
            "db",
            "ca",
            "cert",
            "cert_key",
            "sentinel_user",
            "sentinel_password",
            "prefix",
            "key",
            "poll",
            "poll_max",
            "kind",
            "pubsub",
            "fair_wait",
        ],
        open: open_redis,
    },
    EngineRow {
        scheme: "sqlite",
        ways: &[],
        built: cfg!(feature = "sqlite"),
        options: &["busy", "poll", "create_parent"],
        open: open_sqlite,
    },
    EngineRow {
        scheme: "zookeeper",
        ways: &["zookeepers"],
        built: cfg!(feature = "zookeeper"),
        options: &[
            "session", "tick", "connect", "timeout", "root", "names", "records", "lock",
            "election", "mutex", "auth", "acl", "ca", "cert", "cert_key",
        ],
        open: open_zookeeper,
    },
];

/// The engine of a scheme.
pub(crate) fn find(scheme: &str) -> Result<&'static EngineRow> {
    let Some(row) = TABLE.iter().find(|row| row.answers_to(scheme)) else {
        return Err(Error::invalid(format!("an engine URL starts with one of {}", schemes())));
    };
    if row.built {
        return Ok(row);
    }
    Err(not_built(row.scheme))
}

impl EngineRow {
    /// How a URL of this engine may start.
    fn words(&self) -> String {
        let words = std::iter::once(&self.scheme).chain(self.ways).map(|word| format!("{word}:"));
        words.collect::<Vec<_>>().join(" or ")
    }

    fn answers_to(&self, scheme: &str) -> bool {
        self.scheme == scheme || self.ways.contains(&scheme)
    }
}

fn not_built(scheme: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the {scheme} engine is not compiled in; turn on the cargo feature {scheme:?}"),
    )
}

/// Whether a text is the URL of an engine, and hardly the name of a lock: it has
/// the scheme of one, and then what only a URL has.
///
/// ```
/// use leasehold::is_engine_url;
///
/// assert!(is_engine_url("redis://cache.internal") && is_engine_url("sqlite:locks.db"));
/// assert!(is_engine_url("quorum:sqlite:/a.db,sqlite:/b.db,sqlite:/c.db"));
/// assert!(!is_engine_url("redis:failover") && !is_engine_url("https://a.example/order/1"));
/// ```
#[must_use]
pub fn is_engine_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme = scheme.to_ascii_lowercase();
    let known = TABLE.iter().any(|row| row.answers_to(&scheme));
    let local = scheme == "sqlite" || (scheme == "memory" && rest.is_empty());
    // `quorum:` is followed by other URLs.
    known && (local || rest.starts_with('/') || is_engine_url(rest))
}

/// All schemes, for people.
pub(crate) fn schemes() -> String {
    let schemes: Vec<_> = TABLE.iter().map(EngineRow::words).collect();
    schemes.join(", ")
}

fn open_memory(url: Url) -> Opened {
    Box::pin(async move {
        if !url.rest.is_empty() {
            return Err(Error::invalid("memory: takes no path; it lives in this process"));
        }
        Ok(Arc::new(memory::Memory::new(Clock::System)) as Arc<dyn Engine>)
    })
}

/// One function for each engine that a feature turns on or off; see [`EngineRow::open`].
macro_rules! openers {
    ($($name:ident, $feature:literal, |$url:ident| $open:expr;)+) => { $(
        #[cfg(feature = $feature)]
        fn $name($url: Url) -> Opened {
            Box::pin(async move { $open.await })
        }

        #[cfg(not(feature = $feature))]
        fn $name(_: Url) -> Opened {
            Box::pin(std::future::ready(Err(not_built($feature))))
        }
    )+ };
}

openers! {
    open_etcd, "etcd", |url| etcd::open(&url, Clock::System);
    open_mysql, "mysql", |url| database::open(&url, Clock::System);
    open_postgres, "postgres", |url| database::open(&url, Clock::System);
    open_quorum, "quorum", |url| quorum::open(&url, Clock::System);
    open_redis, "redis", |url| redis::open(&url, Clock::System);
    open_sqlite, "sqlite", |url| sqlite::open(sqlite::SqliteOptions::from_url(&url)?, Clock::System);
    open_zookeeper, "zookeeper", |url| zookeeper::open(&url, Clock::System);
}
