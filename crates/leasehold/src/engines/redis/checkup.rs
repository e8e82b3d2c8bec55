//! What an operator should know about the servers behind a link.

use std::time::Duration;

use redis::Value;

use super::address::{RedisAddress, Topology};
use super::link::RedisLink;
use super::settings::RedisSettings;
use crate::clock::Clock;
use crate::engine::profile::Survives;
use crate::engine::{Finding, Severity};
use crate::engines::kit::skew::SkewCheck;
use crate::error::{ErrorKind, Result};

/// The oldest server whose scripts and pushes are the ones we were tested with.
const OLDEST: u32 = 7;

/// Asks the servers how they are.
#[derive(Clone, Debug)]
pub(super) struct Checkup {
    link: RedisLink,
    clock: Clock,
    timeout: Duration,
    /// Whether strangers could reach the server, and nothing would stop them.
    open_door: bool,
}

impl Checkup {
    pub(super) fn new(link: &RedisLink, settings: &RedisSettings, clock: &Clock) -> Self {
        Self {
            link: link.clone(),
            clock: clock.clone(),
            timeout: settings.timeout,
            open_door: settings.login.password.is_none() && !is_local(&settings.place),
        }
    }

    /// Whether leases outlive a restart: only if every server writes down what
    /// it is told. Whoever may not ask assumes the worst.
    pub(super) async fn survives(&self) -> Survives {
        let told = self.info("persistence").await;
        let kept = |(_, info): &(String, Result<String>)| {
            info.as_ref().is_ok_and(|info| field(info, "aof_enabled") == Some("1"))
        };
        let all = !told.is_empty() && told.iter().all(kept);
        if all { Survives::Restart } else { Survives::Nothing }
    }

    pub(super) async fn examine(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        findings.extend(open_door(self.open_door));
        for (server, info) in self.info("everything").await {
            match info {
                Ok(info) => findings.extend(about(&server, &info)),
                Err(error) if error.kind() == ErrorKind::Denied => {
                    findings.push(not_allowed(&server))
                }
                Err(error) => return Err(error.with("server", server)),
            }
        }
        findings.extend(self.clock_and_latency().await?);
        Ok(findings)
    }

    async fn info(&self, section: &str) -> Vec<(String, Result<String>)> {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        let told = self.link.everywhere(command).await;
        told.into_iter().map(|(server, value)| (server, value.map(text))).collect()
    }

    /// How long answers take, and whether the server's clock goes as ours does.
    async fn clock_and_latency(&self) -> Result<Vec<Finding>> {
        let mut skew = SkewCheck::new(self.timeout);
        for _ in 0..SkewCheck::LOOKS {
            let before = self.clock.now();
            let told = time(&self.link.command(redis::cmd("TIME")).await?);
            skew.add(self.clock.now().since(before), told);
        }
        Ok(skew.findings())
    }
}

fn is_local(place: &Topology) -> bool {
    let local = |address: &RedisAddress| match address {
        RedisAddress::Unix(_) => true,
        RedisAddress::Tcp(server) => server.is_local(),
    };
    match place {
        Topology::One(address) => local(address),
        Topology::Listed(all) | Topology::Cluster(all) | Topology::Sentinels(all, _) => {
            all.iter().all(local)
        }
    }
}

/// `INFO` comes as plain or as formatted text.
fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    }
}

/// Microseconds since 1970, as `TIME` tells them.
fn time(value: &Value) -> Option<u64> {
    let Value::Array(parts) = value else { return None };
    let mut numbers = parts.iter().map(|part| match part {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    });
    Some(numbers.next()?? * 1_000_000 + numbers.next()??)
}

/// One line of `INFO`.
pub(in crate::engines) fn field<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// What `INFO` says that an operator should hear.
fn about(server: &str, info: &str) -> Vec<Finding> {
    let found = [
        version(info),
        eviction(info),
        memory(info),
        crowded(info),
        persistence(info),
        role(info),
        writes(info),
    ];
    found
        .into_iter()
        .flatten()
        .map(|mut finding| {
            finding.message = format!("{server}: {}", finding.message);
            finding
        })
        .collect()
}

fn version(info: &str) -> Option<Finding> {
    let version = field(info, "redis_version")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < OLDEST).then(|| {
        Finding::new(
            Severity::Warning,
            format!("version {version} is older than what locks are tested with"),
            format!("run Redis {OLDEST} or newer, or Valkey"),
        )
    })
}

fn eviction(info: &str) -> Option<Finding> {
    let policy = field(info, "maxmemory_policy")?;
    let limited = field(info, "maxmemory").is_some_and(|most| most != "0");
    let message = format!("under memory pressure the server removes keys ({policy}), leases too");
    let advice = "set maxmemory-policy to noeviction, or give locks a server of their own";
    match (policy, limited) {
        ("noeviction", _) => None,
        (_, true) => Some(Finding::new(Severity::Danger, message, advice)),
        (_, false) => {
            Some(Finding::new(Severity::Note, format!("{message}, once maxmemory is set"), advice))
        }
    }
}

fn number(info: &str, key: &str) -> Option<u64> {
    field(info, key)?.parse().ok()
}

fn memory(info: &str) -> Option<Finding> {
    let (used, most) = (number(info, "used_memory")?, number(info, "maxmemory")?);
    (most > 0 && used > most / 10 * 9).then(|| {
        Finding::new(
            Severity::Warning,
            "nine tenths of maxmemory are used: soon no lock can be taken",
            "raise maxmemory, or move other data away",
        )
    })
}

/// Each of our clients has two connections to every server.
pub(in crate::engines) fn crowded(info: &str) -> Option<Finding> {
    let (used, most) = (number(info, "connected_clients")?, number(info, "maxclients")?);
    (used * 10 >= most * 9).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{used} of {most} connections are in use: soon nobody gets in"),
            "raise maxclients, or let processes share a client",
        )
    })
}

fn persistence(info: &str) -> Option<Finding> {
    (field(info, "aof_enabled")? == "0").then(|| {
        Finding::new(
            Severity::Warning,
            "a restart of the server forgets leases that are held",
            "set appendonly to yes, and appendfsync to always where a second matters",
        )
    })
}

fn role(info: &str) -> Option<Finding> {
    if field(info, "role")? != "master" {
        return Some(Finding::new(
            Severity::Danger,
            "this server is a replica and takes no locks",
            "name the primary, all servers (redis://h1,h2,h3), or the sentinels",
        ));
    }
    let replicas: u32 = field(info, "connected_slaves")?.parse().ok()?;
    (replicas > 0).then(|| {
        Finding::new(
            Severity::Note,
            "replication lags behind: a failover may lose a lease that was just granted",
            "check fences at the resource; ?replicas=1 narrows the gap; redlock:// or etcd closes it",
        )
    })
}

fn writes(info: &str) -> Option<Finding> {
    (field(info, "aof_last_write_status") == Some("err")
        || field(info, "rdb_last_bgsave_status") == Some("err"))
    .then(|| {
        Finding::new(
            Severity::Danger,
            "the server could not write to its disk and may refuse writes",
            "look at its log and its disk",
        )
    })
}

fn open_door(open: bool) -> Option<Finding> {
    open.then(|| {
        Finding::new(
            Severity::Warning,
            "the server asks for no password: whoever reaches it can take any lock away",
            "give the server a user for locks (the page of the engine has its rules) and use rediss://",
        )
    })
}

fn not_allowed(server: &str) -> Finding {
    Finding::new(
        Severity::Note,
        format!("{server}: this user may not ask INFO, so memory and persistence were not checked"),
        "allow +info to the user, or look there yourself",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
                        used_memory:1\r\naof_enabled:1\r\nrole:master\r\nconnected_slaves:0\r\n\
                        connected_clients:89\r\nmaxclients:100\r\n";

    fn worst(info: &str) -> Option<Severity> {
        about("a", info).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_good_server_has_nothing_to_say() {
        assert!(about("a", GOOD).is_empty());
    }

    #[test]
    fn what_is_wrong_is_found_and_says_what_to_do() {
        let with = |from: &str, to: &str| worst(&GOOD.replace(from, to));
        assert_eq!(with("7.0.15", "6.2.1"), Some(Severity::Warning));
        assert_eq!(with("noeviction", "allkeys-lru"), Some(Severity::Note));
        let limited = GOOD.replace("maxmemory:0", "maxmemory:100");
        assert_eq!(worst(&limited.replace("noeviction", "volatile-ttl")), Some(Severity::Danger));
        assert_eq!(
            worst(&limited.replace("used_memory:1", "used_memory:95")),
            Some(Severity::Warning)
        );
        assert_eq!(with("aof_enabled:1", "aof_enabled:0"), Some(Severity::Warning));
        assert_eq!(with("clients:89", "clients:90"), Some(Severity::Warning));
        assert_eq!(with("role:master", "role:slave"), Some(Severity::Danger));
        assert_eq!(with("slaves:0", "slaves:2"), Some(Severity::Note));
        assert!(
            about("a", &GOOD.replace("role:master", "role:slave"))[0].message.starts_with("a: ")
        );
    }
}
