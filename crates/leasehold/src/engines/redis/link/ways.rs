//! The ways to a primary: a fixed address, a list of servers, sentinels.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Value;
use tokio::task::JoinSet;

use super::super::address::{RedisAddress, Topology};
use super::super::settings::RedisSettings;
use super::fault;
use super::line::{Probe, ServerLine, Tell};
use super::wire::{ConnectionTerms, Ear, Wire};
use crate::clock::Clock;
use crate::engines::kit::tls;
use crate::error::{Error, ErrorKind, Result};
use crate::home::Handle;

/// How to find the primary, again and again.
#[derive(Clone)]
pub(super) enum Way {
    Fixed(RedisAddress),
    /// The one that says that it is the primary.
    Listed(Vec<RedisAddress>),
    /// The one that most sentinels name, if it agrees.
    Sentinels {
        sentinels: Vec<RedisAddress>,
        service: String,
        terms: Arc<ConnectionTerms>,
    },
}

impl Way {
    pub(super) fn new(place: &Topology, settings: &RedisSettings, terms: &ConnectionTerms) -> Self {
        match place {
            Topology::One(address) => Self::Fixed(address.clone()),
            Topology::Listed(all) | Topology::Cluster(all) => Self::Listed(all.clone()),
            Topology::Sentinels(all, service) => Self::Sentinels {
                sentinels: all.clone(),
                service: service.clone(),
                terms: Arc::new(ConnectionTerms {
                    login: settings.sentinel_login.clone(),
                    database: 0,
                    // A dead sentinel must not hold up the living.
                    connect: terms.connect.min(terms.timeout),
                    ..terms.clone()
                }),
            },
        }
    }

    /// What shows that a connection still leads to the primary.
    pub(super) const fn probe(&self) -> fn() -> Probe {
        match self {
            Self::Fixed(_) => Probe::alive,
            Self::Listed(_) | Self::Sentinels { .. } => primary_probe,
        }
    }

    /// A line for commands.
    pub(super) fn command_line(self, terms: &Arc<ConnectionTerms>, tell: Tell) -> ServerLine {
        let (probe, with) = (self.probe(), Arc::clone(terms));
        let dial = move || {
            let (way, terms) = (self.clone(), Arc::clone(&with));
            Box::pin(async move { way.dial(&terms, None).await }) as _
        };
        ServerLine::start(Arc::clone(terms), probe, Box::new(dial), tell)
    }

    /// A connection to the primary.
    pub(super) async fn dial(&self, terms: &ConnectionTerms, ear: Option<Ear>) -> Result<Wire> {
        match self {
            Self::Fixed(address) => Wire::open(address, terms, ear).await,
            Self::Listed(all) => first_primary(all, terms, ear).await,
            Self::Sentinels { sentinels, service, terms: to_sentinels } => {
                let address = ask_sentinels(sentinels, service, to_sentinels).await?;
                primary(address, terms.clone(), ear, true).await
            }
        }
    }
}

/// What all connections of a deployment have in common.
pub(super) fn terms(settings: &RedisSettings, clock: Clock) -> Result<ConnectionTerms> {
    Ok(ConnectionTerms {
        login: settings.login.clone(),
        database: settings.database,
        tls: settings.tls.as_ref().map(tls::config).transpose()?,
        connect: settings.connect,
        timeout: settings.timeout,
        clock,
    })
}

fn primary_probe() -> Probe {
    Probe { command: redis::cmd("ROLE"), is_fine: is_primary }
}

/// Says no only to a server that says no: an ACL may forbid the question.
fn is_primary(role: &Value) -> bool {
    let Value::Array(parts) = role else { return true };
    match parts.first() {
        Some(Value::BulkString(word)) => word == b"master",
        Some(Value::SimpleString(word)) => word == "master",
        _ => true,
    }
}

/// A connection to a server that is the primary. One that sentinels have named
/// need not say so itself, if an ACL forbids the question.
async fn primary(
    address: RedisAddress,
    terms: ConnectionTerms,
    ear: Option<Ear>,
    named: bool,
) -> Result<Wire> {
    let wire = Wire::open(&address, &terms, ear).await?;
    let mut pipeline = redis::Pipeline::with_capacity(1);
    pipeline.cmd("ROLE");
    let answer = wire.send(&pipeline).await.map_err(|_| fault::away("the server went away"))?;
    match answer.into_iter().next() {
        Some(Value::ServerError(cause)) if !named => {
            Err(fault::refused(&cause.into()).with("server", address))
        }
        Some(role) if !is_primary(&role) => {
            Err(fault::away("the server is a replica; a primary is awaited")
                .with("server", address))
        }
        _ => Ok(wire),
    }
}

/// Asks all at once, so that a dead one holds up nobody.
async fn first_primary(
    all: &[RedisAddress],
    terms: &ConnectionTerms,
    ear: Option<Ear>,
) -> Result<Wire> {
    let mut asked = JoinSet::new();
    for address in all {
        let primary = primary(address.clone(), terms.clone(), ear.clone(), false);
        Handle::current().spawn_in(&mut asked, primary);
    }
    let mut worst = fault::away("none of the servers was asked");
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|cause| fault::away("a task ended").caused_by(cause)).flatten() {
            Ok(wire) => return Ok(wire),
            Err(error) => worst = worse(worst, error),
        }
    }
    Err(worst)
}

/// What the caller can mend comes before what may mend itself.
fn worse(one: Error, other: Error) -> Error {
    if one.kind() == ErrorKind::Unavailable { other } else { one }
}

/// Where most sentinels see the primary. One that was cut off from the others
/// may still name the old one.
async fn ask_sentinels(
    all: &[RedisAddress],
    service: &str,
    terms: &ConnectionTerms,
) -> Result<RedisAddress> {
    let mut asked = JoinSet::new();
    for sentinel in all {
        let asking = ask_sentinel(sentinel.clone(), service.to_owned(), terms.clone());
        Handle::current().spawn_in(&mut asked, asking);
    }
    let mut votes: BTreeMap<RedisAddress, usize> = BTreeMap::new();
    let mut worst = fault::away("no sentinel answered");
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|cause| fault::away("a task ended").caused_by(cause)).flatten() {
            Ok(address) => {
                let count = votes.entry(address.clone()).or_default();
                *count += 1;
                if *count * 2 > all.len() {
                    return Ok(address);
                }
            }
            Err(error) => worst = worse(worst, error),
        }
    }
    // Of equals the first, so that all clients go to the same.
    let most = votes.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(address, _)| address).ok_or(worst)
}

async fn ask_sentinel(
    sentinel: RedisAddress,
    service: String,
    terms: ConnectionTerms,
) -> Result<RedisAddress> {
    let wire = Wire::open(&sentinel, &terms, None).await?;
    let command = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&service).to_owned();
    let answer = wire.ask(command).await?;
    let unknown = || {
        Error::invalid("the sentinels know no such service; check the name in the URL")
            .with("service", &service)
    };
    let (host, port) = redis::from_redis_value::<Option<(String, u16)>>(answer)
        .map_err(|cause| fault::unreachable(&cause.into()))?
        .ok_or_else(unknown)?;
    RedisAddress::told_parts(&host, port, &sentinel).ok_or_else(unknown)
}
