//! A part of a cluster that stands still, for a while or for good.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::{Change, Guard, Locks, Standing, Watch};
use leasehold_testkit::server::{Fleet, Server, ask};
use tokio::time::timeout;

use super::{BOUND, Checked, until};

/// About as long as a command may take.
const SHORT: Duration = Duration::from_secs(3);
const NAMES: u32 = 60;
/// How many shards a namespace has.
const SHARDS: usize = 64;

/// Nobody replaces anybody.
fn forbid_failover(fleet: &mut Fleet) -> Checked {
    for server in fleet.servers() {
        ask(server, &["CONFIG", "SET", "cluster-node-timeout", "600000"])?;
    }
    Ok(())
}

/// The keys on this primary.
fn keys_on(fleet: &mut Fleet, at: usize) -> Checked<Vec<String>> {
    let list = "return table.concat(redis.call('KEYS', '*'), '\\n')";
    let keys = ask(&fleet.servers()[at], &["EVAL", list, "0"])?;
    Ok(keys.lines().map(str::to_owned).collect())
}

/// Whether the lock of a guard is one of these keys, in either layout.
fn is_among(keys: &[String], guard: &Guard) -> bool {
    let (plain, native) = (guard.name().as_str(), format!(":name:{}", guard.name().as_str()));
    keys.iter().any(|key| key == plain || key.ends_with(&native))
}

/// R24: one primary of three stands still. What is held there is lost; what is
/// held elsewhere is renewed in time, and others get in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_stands_still_takes_no_lease_of_the_others() -> Checked {
    for layout in ["native", "string"] {
        let mut fleet = Fleet::cluster()?;
        forbid_failover(&mut fleet)?;
        let url = format!("{}?retry=none&layout={layout}", fleet.url());
        let locks = leasehold::open(url).await?;
        let mut guards = Vec::new();
        for n in 0..NAMES {
            guards.push(locks.mutex(format!("held/{n}")).ttl(SHORT).lock().await?);
        }
        let keys = keys_on(&mut fleet, 1)?;
        let (still, moving): (Vec<_>, Vec<_>) =
            guards.into_iter().partition(|guard| is_among(&keys, guard));
        assert!(!still.is_empty() && !moving.is_empty());
        fleet.servers()[1].pause()?;
        for guard in &still {
            let standing = timeout(BOUND, guard.lost()).await?;
            assert!(matches!(standing, Standing::Lost(_)), "the fault did not bite");
        }
        // Time for a loss to show itself.
        tokio::time::sleep(SHORT).await;
        let lost = moving.iter().filter(|guard| guard.check().is_err()).count();
        assert_eq!(lost, 0, "{layout}: lost of {} on healthy primaries", moving.len());
        for guard in moving {
            guard.release().await?;
        }
        fleet.servers()[1].resume()?;
    }
    Ok(())
}

/// How many channels of changes somebody listens to.
fn listened_to<'a>(servers: impl Iterator<Item = (usize, &'a Server)>) -> Checked<usize> {
    let list = |server| ask(server, &["PUBSUB", "SHARDCHANNELS"]);
    servers.map(|(_, server)| Ok(list(server)?.matches(":changes:").count())).sum()
}

/// R24: a replica is made the primary, and stands still just when everybody comes
/// to listen to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_come_back_after_a_slow_failover() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let locks = leasehold::open(fleet.url()).await?;
    let mut watch = locks.records::<u32>("w").watch(usize::MAX).await?;
    hears_all(&locks, &mut watch, 1).await?;
    for server in fleet.servers() {
        ask(server, &["CONFIG", "SET", "cluster-node-timeout", "30000"])?;
    }
    let successor = &fleet.servers()[3];
    ask(successor, &["CLUSTER", "FAILOVER"])?;
    ask(successor, &["CLIENT", "PAUSE", "6000", "ALL"])?;
    until("some are deaf", || {
        // The successor does not answer now.
        let heard = listened_to(fleet.servers().iter().enumerate().filter(|(at, _)| *at != 3));
        async move { Ok(heard? < SHARDS) }
    })
    .await?;
    until("all are heard", || {
        let heard = listened_to(fleet.servers().iter().enumerate());
        async move { Ok(heard.unwrap_or(0) == SHARDS) }
    })
    .await?;
    hears_all(&locks, &mut watch, 2).await
}

/// Writes to every shard, and hears of all of it.
async fn hears_all(locks: &Locks, watch: &mut Watch<u32>, value: u32) -> Checked {
    let mut waited_for = HashSet::new();
    for n in 0..500 {
        let name = format!("w/{n}");
        locks.record::<u32>(&name).set(&value).await?;
        waited_for.insert(name);
    }
    while !waited_for.is_empty() {
        let left = waited_for.len();
        let change = timeout(BOUND, watch.next()).await;
        match change.map_err(|_| format!("{left} changes were never heard of"))?? {
            Some(Change::Stored(name, record)) if record.value == value => {
                waited_for.remove(name.as_str());
            }
            Some(_) => {}
            None => return Err("it ended".into()),
        }
    }
    Ok(())
}
