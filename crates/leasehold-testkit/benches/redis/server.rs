//! The one server that everyone locks on, and what it counts.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use leasehold_testkit::Server;

use crate::Outcome;

pub(crate) struct Target {
    server: Server,
}

/// How often each command ran, those inside scripts included.
pub(crate) struct Commands(BTreeMap<String, u64>);

impl Target {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self { server: Server::redis()? })
    }

    pub(crate) fn address(&self) -> String {
        self.server.addr().to_string()
    }

    /// Counts the commands from now on.
    pub(crate) fn reset_counts(&self) -> Outcome<()> {
        Ok(redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut self.connection()?)?)
    }

    pub(crate) fn commands(&self) -> Outcome<Commands> {
        let mut redis = self.connection()?;
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis)?;
        Ok(Commands(info.lines().filter_map(count).filter(|(name, _)| is_work(name)).collect()))
    }

    /// Pairs per second of redis-benchmark, which checks nothing.
    pub(crate) fn redis_benchmark(&self, clients: usize, requests: usize) -> Outcome<f64> {
        let set = self.rate(clients, requests, &["SET", "bench", "me", "NX", "PX", "30000"])?;
        let del = self.rate(clients, requests, &["DEL", "bench"])?;
        Ok(1.0 / (1.0 / set + 1.0 / del))
    }

    fn rate(&self, clients: usize, requests: usize, command: &[&str]) -> Outcome<f64> {
        let mut program = Command::new("redis-benchmark");
        program.args(["-p", &self.server.port().to_string(), "--csv"]);
        program.args(["-c", &clients.to_string(), "-n", &requests.to_string()]);
        let output = program.args(command).output()?;
        let text = String::from_utf8(output.stdout)?;
        let last = text.lines().last().ok_or("redis-benchmark said nothing")?;
        let rate = last.rsplit("\",\"").nth(6).ok_or("an unknown table of redis-benchmark")?;
        Ok(rate.trim_matches('"').parse()?)
    }

    fn connection(&self) -> Outcome<redis::Connection> {
        Ok(redis::Client::open(self.server.url())?.get_connection()?)
    }
}

/// `cmdstat_get:calls=12,usec=..` is 12 of `get`.
fn count(line: &str) -> Option<(String, u64)> {
    let (name, counts) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let calls = counts.split(',').next()?.strip_prefix("calls=")?;
    Some((name.to_owned(), calls.parse().ok()?))
}

/// Not what this program itself sends, nor what a new connection says.
fn is_work(command: &str) -> bool {
    let aside = ["config", "info", "client", "hello", "ping", "select"];
    !aside.contains(&command.split('|').next().unwrap_or_default())
}

impl Commands {
    /// `evalsha 2.0, del 1.0` for each of `many`.
    pub(crate) fn per(&self, many: f64) -> PerOne<'_> {
        PerOne(self, many)
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

pub(crate) struct PerOne<'a>(&'a Commands, f64);

impl fmt::Display for PerOne<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.0.iter().map(|(name, count)| (name, *count as f64 / self.1));
        let mut each: Vec<_> = each.filter(|(_, count)| *count >= 0.05).collect();
        each.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let each: Vec<_> = each.iter().map(|(name, count)| format!("{name} {count:.1}")).collect();
        f.write_str(&each.join(", "))
    }
}
