//! What an operator should know of the servers.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::ZkClient;
use super::settings::ZkSettings;
use super::wire::Acl;
use crate::engine::{Finding, Severity};
use crate::engines::kit::hosts::ServerAddress;
use crate::engines::kit::skew::SkewCheck;
use crate::engines::kit::timeout::timeout;
use crate::error::Result;

/// The oldest server that tells of every change of a value.
const OLDEST: (u32, u32) = (3, 6);
/// Ttls below this are common; servers that refuse them surprise people.
const LONG: Duration = Duration::from_secs(10);
/// Requests in line at a server that keeps up are few.
const IN_LINE: u64 = 1000;
/// More than a server says of itself: a line for each client, at the most.
const WORDS_MAX: u64 = 4 * 1024 * 1024;

impl ZkClient {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>> {
        let settings = &self.terms.settings;
        let mut findings = Vec::new();
        findings.extend(alone(settings));
        findings.extend(open_door(settings));
        findings.extend(long_sessions(self.sessions.shortest()));
        // Servers take such words in the clear alone.
        if settings.tls.is_none() {
            for server in &settings.servers {
                findings.extend(self.question(server).await);
            }
        }
        findings.extend(self.clock_and_latency().await?);
        Ok(findings)
    }

    async fn question(&self, server: &ServerAddress) -> Vec<Finding> {
        let mut findings = match self.hear(server, "srvr").await {
            Ok(words) => about(server, &words, self.terms.settings.servers.len()),
            Err(cause) => vec![silent(server, &cause)],
        };
        // Most servers keep this to themselves.
        let limits = self.hear(server, "conf").await.unwrap_or_default();
        findings.extend(slow_ticks(server, &limits, self.sessions.lag()));
        let guests = self.hear(server, "cons").await.unwrap_or_default();
        findings.extend(crowded(server, &limits, &guests));
        findings
    }

    async fn hear(&self, server: &ServerAddress, word: &str) -> io::Result<String> {
        let (clock, limit) = (&self.terms.clock, self.terms.settings.timeout);
        let told = timeout(clock, limit, say(server, word)).await;
        told.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// How long writes take, and whether the leader's clock goes as ours does.
    async fn clock_and_latency(&self) -> Result<Vec<Finding>> {
        let mut skew = SkewCheck::new(self.terms.settings.timeout);
        for _ in 0..SkewCheck::LOOKS {
            self.terms.wall.forget();
            let before = self.terms.clock.now();
            let millis = self.wall_clock().await?;
            let took = self.terms.clock.now().since(before);
            skew.add(took, u64::try_from(millis).ok().map(|millis| millis * 1000));
        }
        Ok(skew.findings())
    }
}

/// What a server says of itself.
async fn say(server: &ServerAddress, word: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut words = Vec::new();
    stream.take(WORDS_MAX).read_to_end(&mut words).await?;
    Ok(String::from_utf8_lossy(&words).into_owned())
}

fn about(server: &ServerAddress, words: &str, servers: usize) -> Vec<Finding> {
    let Some(version) = field(words, "Zookeeper version") else { return vec![closed(server)] };
    let mode = field(words, "Mode").unwrap_or_default();
    let found = [old(server, version), single(server, mode, servers), behind(server, words)];
    found.into_iter().flatten().collect()
}

fn field<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    words.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

/// Deadlines take into account that a leader hears of us every half tick.
fn slow_ticks(server: &ServerAddress, words: &str, lag: Duration) -> Option<Finding> {
    let tick = words.lines().find_map(|line| line.strip_prefix("tickTime="))?;
    let tick = Duration::from_millis(tick.trim().parse().ok()?);
    (tick / 2 > lag).then(|| {
        Finding::new(
            Severity::Danger,
            format!("{server}: its tickTime is {tick:?}, and its sessions may be shorter than two"),
            format!("add tick={}ms to the URL, or raise minSessionTimeout", tick.as_millis()),
        )
    })
}

/// One host may have so many connections to a server, and each client has one.
fn crowded(server: &ServerAddress, limits: &str, guests: &str) -> Option<Finding> {
    let most = limits.lines().find_map(|line| line.strip_prefix("maxClientCnxns="))?;
    let most: usize = most.trim().parse().ok().filter(|most| *most > 0)?;
    let mut hosts: HashMap<&str, usize> = HashMap::new();
    for host in guests.lines().filter_map(host) {
        *hosts.entry(host).or_default() += 1;
    }
    let (host, used) = hosts.into_iter().max_by_key(|(_, used)| *used)?;
    (used * 10 >= most * 9).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{server}: {host} has {used} of the {most} connections that a host may have"),
            "raise maxClientCnxns, or let processes share a client",
        )
    })
}

/// Who a line of `cons` is about: it begins with `/HOST:PORT[`.
fn host(line: &str) -> Option<&str> {
    let (from, _) = line.trim_start().strip_prefix('/')?.split_once("](")?;
    Some(from.rsplit_once('[')?.0.rsplit_once(':')?.0)
}

/// Whether requests come in faster than they are answered.
fn behind(server: &ServerAddress, words: &str) -> Option<Finding> {
    let waiting: u64 = field(words, "Outstanding")?.trim().parse().ok()?;
    (waiting >= IN_LINE).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{server}: {waiting} requests stand in line: it cannot keep up"),
            "look at its disk and heap; spread names over several ensembles (locks.route)",
        )
    })
}

fn old(server: &ServerAddress, version: &str) -> Option<Finding> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let number = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let short = version.split(['-', ',']).next().unwrap_or(version);
    (number < OLDEST).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{server}: version {short} cannot tell of every change of a record"),
            "run ZooKeeper 3.6 or newer",
        )
    })
}

fn single(server: &ServerAddress, mode: &str, servers: usize) -> Option<Finding> {
    (servers > 1 && mode == "standalone").then(|| {
        Finding::new(
            Severity::Danger,
            format!("{server}: this server belongs to no ensemble: its locks are its own"),
            "name the servers of one ensemble, and no others",
        )
    })
}

fn alone(settings: &ZkSettings) -> Option<Finding> {
    (settings.servers.len() == 1).then(|| {
        Finding::new(
            Severity::Warning,
            "one server is named: while it is away no lock can be taken",
            "run an ensemble, and name all its servers: zookeeper://h1,h2,h3",
        )
    })
}

fn open_door(settings: &ZkSettings) -> Option<Finding> {
    let open = settings.acl == Acl::Open && !settings.servers.iter().all(ServerAddress::is_local);
    open.then(|| {
        Finding::new(
            Severity::Warning,
            "our nodes are open to all: whoever reaches the servers can take any lock away",
            "give ?auth=digest:user:password&acl=creator, and use zookeepers://",
        )
    })
}

fn long_sessions(shortest: Duration) -> Option<Finding> {
    (shortest > LONG).then(|| {
        Finding::new(
            Severity::Note,
            format!("sessions last at least {shortest:?}, so shorter ttls are refused"),
            "lower minSessionTimeout, or tickTime",
        )
    })
}

fn closed(server: &ServerAddress) -> Finding {
    Finding::new(
        Severity::Note,
        format!("{server}: it does not say how it is, so its version was not checked"),
        "add srvr to 4lw.commands.whitelist, or look there yourself",
    )
}

fn silent(server: &ServerAddress, cause: &io::Error) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{server}: it cannot be reached ({cause})"),
        "look whether it runs, and whether it is named rightly",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    const GOOD: &str = "Zookeeper version: 3.8.0-x, built on 2022\nMode: follower\nNode count: 5\n";

    fn worst(words: &str, servers: usize) -> Option<Severity> {
        let server = ServerAddress { host: "a".into(), port: 1 };
        about(&server, words, servers).iter().map(|finding| finding.severity).max()
    }

    fn settings(url: &str) -> ZkSettings {
        ZkSettings::from_url(&Url::parse(url).unwrap()).unwrap()
    }

    #[test]
    fn servers_are_judged_by_what_they_say() {
        assert_eq!(worst(GOOD, 3), None);
        assert_eq!(worst(&GOOD.replace("3.8.0", "3.5.9"), 3), Some(Severity::Warning));
        let lone = GOOD.replace("follower", "standalone");
        assert_eq!((worst(&lone, 1), worst(&lone, 3)), (None, Some(Severity::Danger)));
        assert_eq!(worst("srvr is not executed because", 1), Some(Severity::Note));
    }

    #[test]
    fn ticks_are_not_longer_than_we_think() {
        let server = ServerAddress { host: "a".into(), port: 1 };
        let found = |words| slow_ticks(&server, words, Duration::from_millis(500));
        assert!(found("clientPort=2181\ntickTime=1000\n").is_none());
        assert!(found("clientPort=2181\ntickTime=2000\n").is_some());
        assert!(found("conf is not executed because it is not in the whitelist.").is_none());
    }

    #[test]
    fn limits_that_are_near_are_told() {
        let server = ServerAddress { host: "a".into(), port: 1 };
        assert_eq!(worst(&format!("{GOOD}Outstanding: 2\n"), 3), None);
        assert_eq!(worst(&format!("{GOOD}Outstanding: 1000\n"), 3), Some(Severity::Warning));
        let guests = " /10.0.0.1:5[1](queued=0)\n /10.0.0.2:6[1](queued=0)\n /10.0.0.1:7[0]()\n";
        let found = |most: &str| crowded(&server, &format!("maxClientCnxns={most}\n"), guests);
        assert!(found("2").unwrap().message.contains("10.0.0.1 has 2 of the 2"));
        assert!(found("3").or(found("0")).is_none() && crowded(&server, "", guests).is_none());
    }

    #[test]
    fn urls_are_judged_by_whom_they_let_in() {
        assert!(open_door(&settings("zookeeper://a,b")).is_some());
        assert!(open_door(&settings("zookeeper://localhost")).is_none());
        assert!(open_door(&settings("zookeeper://a?auth=digest:u:p&acl=creator")).is_none());
        assert!(alone(&settings("zookeeper://a")).is_some());
        assert!(long_sessions(Duration::from_secs(4)).is_none());
    }
}
