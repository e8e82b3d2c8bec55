//! Many tasks that lock at the same time.

use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Answer;
use crate::door::{Door, Outcome};

/// All on one name; each adds one to a counter in two steps while it holds.
pub(crate) async fn contend(
    door: Door,
    counter: MultiplexedConnection,
    key: String,
    tasks: usize,
    span: Duration,
) -> Outcome<u64> {
    let end = Instant::now() + span;
    let task = |_| count(door.clone(), counter.clone(), key.clone(), end);
    let mut crowd: JoinSet<_> = (0..tasks).map(task).collect();
    let mut did = 0;
    while let Some(one) = crowd.join_next().await {
        did += one??;
    }
    Ok(did)
}

async fn count(
    door: Door,
    mut redis: MultiplexedConnection,
    key: String,
    end: Instant,
) -> Outcome<u64> {
    let mut did = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(did);
        }
        let Some(held) = door.lock(left, Duration::ZERO).await? else { continue };
        let before: Option<u64> = redis.get(&key).await?;
        let () = redis.set(&key, before.unwrap_or_default() + 1).await?;
        did += 1;
        if !held.unlock().await? {
            return Err("lost while it was held".into());
        }
    }
}

/// Each on a name of its own; how long a lock with its unlock takes.
pub(crate) async fn bench(doors: Vec<Door>, span: Duration) -> Answer {
    let start = Instant::now();
    let mut crowd: JoinSet<_> = doors.into_iter().map(|door| pairs(door, start + span)).collect();
    let mut samples = Vec::new();
    while let Some(one) = crowd.join_next().await {
        samples.extend(one??);
    }
    let seconds = start.elapsed().as_secs_f64();
    samples.sort_unstable();
    let at = |hundredths: usize| samples.get(samples.len() * hundredths / 100);
    let report =
        json!({"ops": samples.len(), "seconds": seconds, "p50_ns": at(50), "p99_ns": at(99)});
    Ok(report.to_string())
}

async fn pairs(door: Door, end: Instant) -> Outcome<Vec<u64>> {
    let mut samples = Vec::new();
    let mut now = Instant::now();
    while now < end {
        let held =
            door.lock(Duration::ZERO, Duration::ZERO).await?.ok_or("somebody else is here")?;
        held.unlock().await?;
        let then = Instant::now();
        samples.push(u64::try_from((then - now).as_nanos())?);
        now = then;
    }
    Ok(samples)
}
