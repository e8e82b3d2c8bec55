//! A user that may do what locks need and nothing else.

use std::time::Duration;

use leasehold::engine::{Eviction, Page, Target};
use leasehold::{Locks, Mode};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{BOUND, Checked, LONG, until};

/// The rules of a user for locks on one server. `+info` is for doctor alone.
const RULES: &str = "resetkeys ~leasehold:* resetchannels &leasehold:* nocommands \
                     +eval +evalsha +time +get +set +del +pexpire +pttl \
                     +hget +hset +hdel +hgetall +zadd +zrem +zrangebylex +zrangebyscore \
                     +publish +subscribe +ping +client|setname +info";
/// What a cluster needs beyond them; asking is for slots on the move.
const IN_A_CLUSTER: &str = "+cluster|slots +spublish +ssubscribe +sunsubscribe +asking";
/// A list of servers and sentinels.
const WHERE_PRIMARIES_CHANGE: &str = "+role";
/// `?replicas=`.
const WITH_REPLICAS: &str = "+wait";
/// A database other than 0.
const IN_A_DATABASE: &str = "+select";

/// Makes the user `locks`.
fn hire(server: &Server, rules: &[&str]) -> Checked {
    let words: Vec<&str> = rules.iter().flat_map(|rules| rules.split_whitespace()).collect();
    ask(server, &[&["ACL", "SETUSER", "locks", "reset", "on", ">pass"], &words[..]].concat())?;
    Ok(())
}

/// What the server refused to anybody.
fn refused(server: &Server) -> Checked<String> {
    Ok(ask(server, &["ACL", "LOG"])?)
}

/// Everything that a client of locks can do.
async fn does_everything(locks: &Locks) -> Checked {
    let guard = locks.mutex("n").ttl(LONG).lock().await?;
    hands_over(locks, guard).await?;
    let mut writer = locks.rwlock("rw").ttl(LONG).write().await?;
    writer.convert(Mode::Read).await?;
    let reader = locks.rwlock("rw").ttl(LONG).read().await?;
    assert!(locks.rwlock("rw").try_write().await?.is_none());
    writer.release().await?;
    reader.release().await?;
    let permits = locks.semaphore("s", 3).ttl(LONG).acquire(2).await?;
    permits.extend(2 * LONG).await?;
    permits.release().await?;
    keeps_records(locks).await?;
    let evicted = locks.mutex("e").ttl(LONG).lock().await?;
    assert_eq!(locks.list("", Page::default()).await?.names.len(), 1);
    let eviction = Eviction::new(locks.name("e")?, Target::All, "op", "a test")?;
    assert_eq!(locks.evict(eviction).await?.leases.len(), 1);
    tokio::time::timeout(BOUND, evicted.lost()).await?;
    locks.examine().await?;
    Ok(())
}

async fn hands_over(locks: &Locks, guard: leasehold::Guard) -> Checked {
    let waiting = tokio::spawn(locks.mutex("n").ttl(LONG).lock().within(BOUND).into_future());
    until("it queues", || async { Ok(locks.status("n").await?.waiters.len() == 1) }).await?;
    guard.release().await?;
    waiting.await??.release().await?;
    Ok(())
}

async fn keeps_records(locks: &Locks) -> Checked {
    let record = locks.record::<u64>("r");
    let mut changes = record.watch().await?;
    record.set(&1).await?;
    locks.record::<u64>("brief").ttl(Duration::from_millis(10)).set(&1).await?;
    assert!(tokio::time::timeout(BOUND, changes.next()).await??.is_some());
    assert_eq!(record.get().await?.map(|found| found.value), Some(1));
    locks.records::<u64>("r").list(1).await?;
    record.delete().await?;
    Ok(())
}

/// The commands that rules allow, as `INFO commandstats` names them.
fn allowed<'a>(rules: &[&'a str]) -> Vec<&'a str> {
    let words = rules.iter().flat_map(|rules| rules.split_whitespace());
    words.filter_map(|word| word.strip_prefix('+')).collect()
}

/// Which of the commands nobody has used on any of the servers.
fn unused<'a>(servers: &[Server], commands: &[&'a str]) -> Checked<Vec<&'a str>> {
    let mut stats = String::new();
    for server in servers {
        stats += &ask(server, &["INFO", "commandstats"])?;
    }
    let used = |command: &str| stats.contains(&format!("cmdstat_{command}:"));
    Ok(commands.iter().copied().filter(|command| !used(command)).collect())
}

#[tokio::test]
async fn the_rules_for_one_server_are_enough_and_none_is_too_many() -> Checked {
    let server = Server::redis()?;
    hire(&server, &[RULES])?;
    let locks = leasehold::open(format!("redis://locks:pass@{}", server.addr())).await?;
    does_everything(&locks).await?;
    assert_eq!(refused(&server)?, "array([])");
    let servers = [server];
    let all_used = || async { Ok(unused(&servers, &allowed(&[RULES]))?.is_empty()) };
    until(&format!("use of {:?}", unused(&servers, &allowed(&[RULES]))?), all_used).await
}

#[tokio::test]
async fn the_rules_for_a_cluster_are_enough() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let rules = [RULES, IN_A_CLUSTER, WITH_REPLICAS];
    for server in fleet.servers() {
        hire(server, &rules)?;
    }
    let url = fleet.url().replace("://", "://locks:pass@") + "?replicas=1";
    let locks = leasehold::open(url).await?;
    does_everything(&locks).await?;
    for server in fleet.servers() {
        assert_eq!(refused(server)?, "array([])");
    }
    Ok(())
}

#[tokio::test]
async fn the_rules_for_replicas_and_databases_are_enough() -> Checked {
    let mut fleet = Fleet::replicated(1)?;
    let rules = [RULES, WHERE_PRIMARIES_CHANGE, WITH_REPLICAS, IN_A_DATABASE];
    for server in fleet.servers() {
        hire(server, &rules)?;
    }
    let url = fleet.url().replace("://", "://locks:pass@") + "3?replicas=1";
    does_everything(&leasehold::open(url).await?).await?;
    for server in fleet.servers() {
        assert_eq!(refused(server)?, "array([])");
    }
    Ok(())
}

#[tokio::test]
async fn the_rules_forbid_the_rest() -> Checked {
    let server = Server::redis()?;
    hire(&server, &[RULES])?;
    let client = redis::Client::open(format!("redis://locks:pass@{}", server.addr()))?;
    let mut connection = client.get_connection()?;
    for words in [
        &["GET", "other"][..],
        &["SET", "other", "1"],
        &["KEYS", "*"],
        &["SCAN", "0"],
        &["FLUSHALL"],
        &["FLUSHDB"],
        &["CONFIG", "GET", "*"],
        &["CONFIG", "SET", "maxmemory", "1"],
        &["SCRIPT", "FLUSH"],
        &["CLIENT", "KILL", "TYPE", "normal"],
        &["PUBLISH", "other", "1"],
        &["SUBSCRIBE", "other"],
        &["EVAL", "return redis.call('GET', 'other')", "0"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "other"],
        &["ACL", "LIST"],
        &["SHUTDOWN"],
    ] {
        let answer: redis::RedisResult<redis::Value> =
            redis::cmd(words[0]).arg(&words[1..]).query(&mut connection);
        let error = answer.expect_err(&format!("{words:?} went through"));
        let said = format!("{error} {:?}", error.code());
        assert!(said.contains("NOPERM") || said.contains("permission"), "{words:?}: {said}");
    }
    Ok(())
}
