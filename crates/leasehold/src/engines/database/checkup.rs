//! What an operator should know about the database behind a pool.

use std::collections::HashMap;
use std::sync::Arc;

use super::plans;
use crate::engine::profile::Survives;
use crate::engine::{Finding, Severity};
use crate::engines::database::dialect::Dialect;
use crate::engines::database::pool::Pool;
use crate::engines::kit::skew::SkewCheck;
use crate::error::Result;

/// What a server is asked: names and values, as text. Of settings it is what a
/// new session would get, not what ours was told.
const POSTGRES_FACTS: &str = "\
SELECT name, COALESCE(reset_val, '') FROM pg_catalog.pg_settings WHERE name IN (\
'server_version_num', 'server_version', 'max_connections', 'fsync', 'synchronous_commit', \
'synchronous_standby_names', 'idle_session_timeout', 'default_transaction_isolation') \
UNION ALL SELECT 'used', CAST(count(*) AS text) FROM pg_catalog.pg_stat_activity \
WHERE backend_type = 'client backend' \
UNION ALL SELECT 'copies', CAST(count(*) AS text) FROM pg_catalog.pg_stat_replication";
const MYSQL_FACTS: &str = "\
SELECT 'server_version', CONVERT(@@version USING utf8mb4) \
UNION ALL SELECT 'max_connections', CONVERT(@@global.max_connections, CHAR) \
UNION ALL SELECT 'wait_timeout', CONVERT(@@global.wait_timeout, CHAR) \
UNION ALL SELECT 'flush', CONVERT(@@global.innodb_flush_log_at_trx_commit, CHAR) \
UNION ALL SELECT 'used', CONVERT(COUNT(*), CHAR) FROM information_schema.processlist \
WHERE command NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
UNION ALL SELECT 'copies', CONVERT(COUNT(*), CHAR) FROM information_schema.processlist \
WHERE command IN ('Binlog Dump', 'Binlog Dump GTID')";

/// Microseconds since 1970 by the server's clock.
const POSTGRES_CLOCK: &str =
    "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)";
const MYSQL_CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Below this many seconds a connection that rests for a while is gone.
const REST: u64 = 60;

type ServerReport = HashMap<String, String>;

/// Everything there is to say, whatever the strategy.
pub(super) async fn examine(pool: &Pool) -> Result<Vec<Finding>> {
    let facts = facts(pool).await?;
    let mut findings = between(pool);
    findings.extend(judge(pool.dialect(), &facts));
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
    let sql: Arc<str> = match pool.dialect() {
        Dialect::Postgres => POSTGRES_FACTS.into(),
        Dialect::Mysql => MYSQL_FACTS.into(),
    };
    let rows = pool.run(&sql, Vec::new()).await?.rows;
    rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))).collect()
}

async fn skew(pool: &Pool) -> Result<Vec<Finding>> {
    let sql: Arc<str> = match pool.dialect() {
        Dialect::Postgres => POSTGRES_CLOCK.into(),
        Dialect::Mysql => MYSQL_CLOCK.into(),
    };
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

fn judge(dialect: Dialect, facts: &ServerReport) -> Vec<Finding> {
    let all = [
        version(dialect, facts),
        crowded(facts),
        forgetful(facts),
        lagging(facts),
        restless(facts),
        isolation(facts),
    ];
    all.into_iter().flatten().collect()
}

fn version(dialect: Dialect, facts: &ServerReport) -> Option<Finding> {
    let version = facts.get("server_version")?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let found: (u32, u32) = (parts.next()??, parts.next().flatten().unwrap_or_default());
    let (name, oldest) = match dialect {
        Dialect::Postgres => ("PostgreSQL 12", (12, 0)),
        Dialect::Mysql if version.contains("MariaDB") => ("MariaDB 10.6", (10, 6)),
        Dialect::Mysql => ("MySQL 8.0", (8, 0)),
    };
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

    fn worst(dialect: Dialect, told: &[(&str, &str)]) -> Option<Severity> {
        let good: &[(&str, &str)] = match dialect {
            Dialect::Postgres => &[
                ("server_version", "15.4 (Debian 15.4-1)"),
                ("max_connections", "100"),
                ("used", "3"),
                ("copies", "0"),
                ("fsync", "on"),
                ("synchronous_commit", "on"),
                ("synchronous_standby_names", ""),
                ("idle_session_timeout", "0"),
                ("default_transaction_isolation", "read committed"),
            ],
            Dialect::Mysql => &[
                ("server_version", "10.11.4-MariaDB-1"),
                ("max_connections", "151"),
                ("used", "3"),
                ("wait_timeout", "28800"),
                ("flush", "1"),
                ("copies", "0"),
            ],
        };
        let all = good.iter().chain(told);
        let facts = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        judge(dialect, &facts).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_good_server_has_nothing_to_say() {
        assert_eq!(worst(Dialect::Postgres, &[]), None);
        assert_eq!(worst(Dialect::Mysql, &[]), None);
    }

    #[test]
    fn what_is_wrong_with_a_postgresql_is_found() {
        let with = |name, value| worst(Dialect::Postgres, &[(name, value)]);
        assert_eq!(with("server_version", "11.22"), Some(Severity::Warning));
        assert_eq!(with("used", "95"), Some(Severity::Warning));
        assert_eq!(with("fsync", "off"), Some(Severity::Danger));
        assert_eq!(with("synchronous_commit", "off"), Some(Severity::Warning));
        assert_eq!(with("copies", "1"), Some(Severity::Note));
        assert_eq!(with("idle_session_timeout", "5000"), Some(Severity::Note));
        assert_eq!(with("default_transaction_isolation", "serializable"), Some(Severity::Note));
        let kept = [("copies", "1"), ("synchronous_standby_names", "*")];
        assert_eq!(worst(Dialect::Postgres, &kept), None);
    }

    #[test]
    fn what_is_wrong_with_a_mariadb_or_mysql_is_found() {
        let with = |name, value| worst(Dialect::Mysql, &[(name, value)]);
        assert_eq!(with("server_version", "10.5.1-MariaDB"), Some(Severity::Warning));
        assert_eq!(with("server_version", "5.7.40"), Some(Severity::Warning));
        assert_eq!(with("server_version", "8.0.36"), None);
        assert_eq!(with("flush", "2"), Some(Severity::Warning));
        assert_eq!(with("wait_timeout", "30"), Some(Severity::Note));
    }
}
