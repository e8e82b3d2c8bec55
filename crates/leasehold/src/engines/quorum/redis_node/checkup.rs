//! What an operator should know of one node.

use std::time::Duration;

use ::redis::{Value, cmd};

use super::age::age_after;
use crate::engine::{Finding, Severity};
use crate::engines::redis::checkup::{crowded, field};
use crate::engines::redis::link::RedisLink;
use crate::error::Result;

/// How long a step of the clock is worth mentioning.
pub(super) const REMEMBERED: Duration = Duration::from_secs(3600);

/// Whether the server forgets nothing that it has answered. One that does not
/// tell is not trusted.
pub(super) async fn is_durable(link: &RedisLink) -> bool {
    let kept = setting(link, "appendonly").await.ok().flatten();
    let synced = setting(link, "appendfsync").await.ok().flatten();
    kept.as_deref() == Some("yes") && synced.as_deref() == Some("always")
}

async fn setting(link: &RedisLink, name: &str) -> Result<Option<String>> {
    let mut command = cmd("CONFIG");
    command.arg("GET").arg(name);
    Ok(match link.command(command).await? {
        Value::Map(pairs) => pairs.into_iter().next().and_then(|(_, value)| text(value)),
        Value::Array(parts) => parts.into_iter().nth(1).and_then(text),
        _ => None,
    })
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

pub(super) async fn examine(
    link: &RedisLink,
    quarantine: Duration,
    step: Option<Duration>,
) -> Result<Vec<Finding>> {
    let mut command = cmd("INFO");
    command.arg("everything");
    let info = text(link.command(command).await?).unwrap_or_default();
    let durable = is_durable(link).await;
    let policy = setting(link, "maxmemory-policy").await.ok().flatten();
    let found = [
        persistence(durable),
        age(&info, quarantine, durable),
        eviction(policy.as_deref()),
        role(&info),
        crowded(&info),
        step.map(stepped),
    ];
    Ok(found.into_iter().flatten().collect())
}

fn persistence(durable: bool) -> Option<Finding> {
    (!durable).then(|| {
        Finding::new(
            Severity::Warning,
            "it may forget leases and counters when it restarts",
            "set appendonly yes and appendfsync always, or keep clocks right and let the \
             quarantine do its work",
        )
    })
}

fn age(info: &str, quarantine: Duration, durable: bool) -> Option<Finding> {
    let age: u64 = field(info, "uptime_in_seconds")?.parse().ok()?;
    (age < age_after(quarantine) && !durable).then(|| {
        Finding::new(
            Severity::Note,
            format!("it started {age}s ago and does not vote yet"),
            format!("wait until {quarantine:?} have passed since its start"),
        )
    })
}

fn eviction(policy: Option<&str>) -> Option<Finding> {
    let policy = policy.filter(|policy| *policy != "noeviction")?;
    Some(Finding::new(
        Severity::Warning,
        format!("maxmemory-policy is {policy}: leases and counters may be evicted"),
        "set maxmemory-policy noeviction, or use servers of their own for locks",
    ))
}

fn role(info: &str) -> Option<Finding> {
    (field(info, "role")? != "master").then(|| {
        Finding::new(
            Severity::Danger,
            "it is a replica: it has no say of its own",
            "name independent primaries; replication between nodes breaks the quorum",
        )
    })
}

fn stepped(step: Duration) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("its clock jumped by {step:?} within the last hour"),
        "let the clock be slewed and never set; leases may have ended early or stayed late",
    )
}
