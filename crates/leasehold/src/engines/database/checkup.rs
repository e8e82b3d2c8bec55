//! What an operator should know about the database behind a pool.

use std::collections::HashMap;
use std::sync::Arc;

use super::plans;
use crate::engine::profile::Survives;
use crate::engine::{Finding, Severity};
use crate::engines::database::dialect::Family;
use crate::engines::database::pool::Pool;
use crate::engines::kit::skew::SkewCheck;
use crate::error::Result;

/// Below this many seconds a connection that rests for a while is gone.
const REST: u64 = 60;

type ServerReport = HashMap<String, String>;

/// Everything there is to say, whatever the strategy.
pub(super) async fn examine(pool: &Pool) -> Result<Vec<Finding>> {
    let facts = facts(pool).await?;
    let mut findings = between(pool);
    findings.extend(judge(pool.family(), &facts));
    findings.extend(plans::examine_names(pool).await?);
    findings.extend(skew(pool).await?);
    Ok(findings)
}

/// What a row that was committed outlives: the loss of a machine, where a commit
/// waits for a copy; else a restart.
pub(super) async fn survives(pool: &Pool) -> Survives {
    match facts(pool).await {
        Ok(facts) if is_synchronous(&facts) => Survives::Failover,
        _ => Survives::Restart,
    }
}

async fn facts(pool: &Pool) -> Result<ServerReport> {
    let sql: Arc<str> = pool.family().facts().into();
    let rows = pool.run(&sql, Vec::new()).await?.rows;
    rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))).collect()
}

async fn skew(pool: &Pool) -> Result<Vec<Finding>> {
    let sql: Arc<str> = pool.family().clock().into();
    let mut skew = SkewCheck::new(pool.timeout());
    for _ in 0..SkewCheck::LOOKS {
        let reply = pool.run(&sql, Vec::new()).await?;
        let took = pool.clock().now().since(reply.sent_at);
        let told = reply.rows.first().and_then(|row| row.int(0).ok());
        skew.add(took, told.and_then(|told| u64::try_from(told).ok()));
    }
    Ok(skew.findings())
}

/// What stands between the server and us, or beside it.
fn between(pool: &Pool) -> Vec<Finding> {
    let pooler = pool.behind_pooler().then(|| {
        Finding::new(
            Severity::Note,
            "a pooler that hands out sessions by the transaction stands in between: waiters ask \
             again and again instead of being told, and statements are not prepared",
            "give locks a direct connection, or a pooler in session mode",
        )
    });
    let rivals = pool.has_rivals().then(|| {
        Finding::new(
            Severity::Danger,
            "more than one server of the URL takes writes: two clients may hold one name",
            "stop the one that was replaced, or make it read-only",
        )
    });
    pooler.into_iter().chain(rivals).collect()
}

fn judge(family: &dyn Family, facts: &ServerReport) -> Vec<Finding> {
    let all = [
        version(family, facts),
        crowded(facts),
        forgetful(facts),
        lagging(facts),
        restless(facts),
        isolation(facts),
    ];
    all.into_iter().flatten().collect()
}

fn version(family: &dyn Family, facts: &ServerReport) -> Option<Finding> {
    let version = facts.get("server_version")?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let found: (u32, u32) = (parts.next()??, parts.next().flatten().unwrap_or_default());
    let (name, oldest) = family.oldest(version);
    (found < oldest).then(|| {
        Finding::new(
            Severity::Warning,
            format!("version {version} is older than what locks are tested with"),
            format!("run {name} or newer"),
        )
    })
}

fn crowded(facts: &ServerReport) -> Option<Finding> {
    let (used, most) = (number(facts, "used")?, number(facts, "max_connections")?);
    (used * 10 >= most * 9).then(|| {
        Finding::new(
            Severity::Warning,
            format!("{used} of {most} connections are in use: soon nobody gets in"),
            "raise max_connections, or put a pooler before those that need many",
        )
    })
}

/// What a crash makes the server forget.
fn forgetful(facts: &ServerReport) -> Option<Finding> {
    if is(facts, "fsync", "off") {
        return Some(Finding::new(
            Severity::Danger,
            "the server does not write to its disk what it promises (fsync = off): a crash of \
             its machine may forget leases that are held, or the whole database",
            "set fsync to on",
        ));
    }
    let lazy = is(facts, "synchronous_commit", "off")
        || facts.get("flush").is_some_and(|flush| flush != "1");
    lazy.then(|| {
        Finding::new(
            Severity::Warning,
            "a crash of the server may forget leases that were just granted",
            "set synchronous_commit to on, or innodb_flush_log_at_trx_commit to 1",
        )
    })
}

/// Copies that may take over without the last grants.
fn lagging(facts: &ServerReport) -> Option<Finding> {
    let copied = number(facts, "copies").is_some_and(|copies| copies > 0);
    (copied && !is_synchronous(facts)).then(|| {
        Finding::new(
            Severity::Note,
            "replication lags behind: a failover may lose a lease that was just granted",
            "check fences at the resource; synchronous_standby_names closes the gap",
        )
    })
}

fn restless(facts: &ServerReport) -> Option<Finding> {
    let idle = number(facts, "idle_session_timeout").filter(|millis| *millis > 0);
    let seconds = idle.map(|millis| millis / 1000).or_else(|| number(facts, "wait_timeout"))?;
    (seconds < REST).then(|| {
        Finding::new(
            Severity::Note,
            format!("the server ends sessions that rest for {seconds} s; ours ask to be spared"),
            "raise idle_session_timeout or wait_timeout if holders lose their sessions",
        )
    })
}

fn isolation(facts: &ServerReport) -> Option<Finding> {
    let level = facts.get("default_transaction_isolation")?;
    (level != "read committed").then(|| {
        Finding::new(
            Severity::Note,
            format!("sessions start at isolation level {level}; ours work at read committed"),
            "behind a pooler, set default_transaction_isolation for the role of the locks",
        )
    })
}

/// A commit waits for a copy, and the copy has it on disk.
fn is_synchronous(facts: &ServerReport) -> bool {
    let named = facts.get("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    let waits = facts
        .get("synchronous_commit")
        .is_some_and(|level| matches!(level.as_str(), "on" | "remote_apply"));
    named && waits
}

fn is(facts: &ServerReport, name: &str, value: &str) -> bool {
    facts.get(name).is_some_and(|found| found == value)
}

fn number(facts: &ServerReport, name: &str) -> Option<u64> {
    facts.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::database::dialect::{MYSQL, POSTGRES};

    const GOOD_POSTGRES: &[(&str, &str)] = &[
        ("server_version", "15.4 (Debian 15.4-1)"),
        ("max_connections", "100"),
        ("used", "3"),
        ("copies", "0"),
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("synchronous_standby_names", ""),
        ("idle_session_timeout", "0"),
        ("default_transaction_isolation", "read committed"),
    ];
    const GOOD_MARIADB: &[(&str, &str)] = &[
        ("server_version", "10.11.4-MariaDB-1"),
        ("max_connections", "151"),
        ("used", "3"),
        ("wait_timeout", "28800"),
        ("flush", "1"),
        ("copies", "0"),
    ];

    fn on_postgres(told: &[(&str, &str)]) -> Option<Severity> {
        worst(POSTGRES, GOOD_POSTGRES, told)
    }

    fn on_mysql(told: &[(&str, &str)]) -> Option<Severity> {
        worst(MYSQL, GOOD_MARIADB, told)
    }

    fn worst(
        family: &dyn Family,
        good: &[(&str, &str)],
        told: &[(&str, &str)],
    ) -> Option<Severity> {
        let all = good.iter().chain(told);
        let facts = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        judge(family, &facts).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_good_server_has_nothing_to_say() {
        assert_eq!(on_postgres(&[]), None);
        assert_eq!(on_mysql(&[]), None);
    }

    #[test]
    fn what_is_wrong_with_a_postgresql_is_found() {
        let with = |name, value| on_postgres(&[(name, value)]);
        assert_eq!(with("server_version", "11.22"), Some(Severity::Warning));
        assert_eq!(with("used", "95"), Some(Severity::Warning));
        assert_eq!(with("fsync", "off"), Some(Severity::Danger));
        assert_eq!(with("synchronous_commit", "off"), Some(Severity::Warning));
        assert_eq!(with("copies", "1"), Some(Severity::Note));
        assert_eq!(with("idle_session_timeout", "5000"), Some(Severity::Note));
        assert_eq!(with("default_transaction_isolation", "serializable"), Some(Severity::Note));
        let kept = [("copies", "1"), ("synchronous_standby_names", "*")];
        assert_eq!(on_postgres(&kept), None);
    }

    #[test]
    fn what_is_wrong_with_a_mariadb_or_mysql_is_found() {
        let with = |name, value| on_mysql(&[(name, value)]);
        assert_eq!(with("server_version", "10.5.1-MariaDB"), Some(Severity::Warning));
        assert_eq!(with("server_version", "5.7.40"), Some(Severity::Warning));
        assert_eq!(with("server_version", "8.0.36"), None);
        assert_eq!(with("flush", "2"), Some(Severity::Warning));
        assert_eq!(with("wait_timeout", "30"), Some(Severity::Note));
    }
}
