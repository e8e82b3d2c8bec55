//! A user that may do what locks need and nothing else.

use std::time::Duration;

use leasehold::engine::{Eviction, Page, Target};
use leasehold::{Locks, Mode};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{BOUND, Checked, LONG, until};

/// The page that tells operators which rules to give.
const PAGE: &str = include_str!("../../../../docs/engines/redis.md");
/// What the page adds for those who need it.
const FOR_DOCTOR: &str = "+info";
const FOR_A_LIST: &str = "+role";
const FOR_REPLICAS: &str = "+wait";
const FOR_A_DATABASE: &str = "+select";
const FOR_A_CLUSTER: &str = "+cluster\\|slots +asking +spublish +ssubscribe +sunsubscribe";

/// The rules as the page has them, with some of what it adds.
fn rules(more: &[&str]) -> Vec<String> {
    let command = PAGE.split("ACL SETUSER locks on ").nth(1).unwrap_or_default();
    let command = command.split("```").next().unwrap_or_default();
    for more in more {
        assert!(PAGE.contains(&format!("| `{more}` |")), "the page does not say {more}");
    }
    let words = command.split_whitespace().skip(1).filter(|word| *word != "\\");
    let more = more.iter().flat_map(|more| more.split_whitespace());
    words.chain(more).map(|word| word.replace(['\'', '\\'], "")).collect()
}

/// Makes the user `locks`.
fn hire(server: &Server, rules: &[String]) -> Checked {
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    ask(server, &[&["ACL", "SETUSER", "locks", "reset", "on", ">pass"], &rules[..]].concat())?;
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
    assert_eq!(locks.status("rw").await?.holders.len(), 2);
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

/// Which commands the rules allow and nobody has used.
fn unused(server: &Server, rules: &[String]) -> Checked<Vec<String>> {
    let stats = ask(server, &["INFO", "commandstats"])?;
    let allowed = rules.iter().filter_map(|rule| rule.strip_prefix('+'));
    let unused = allowed.filter(|command| !stats.contains(&format!("cmdstat_{command}:")));
    Ok(unused.map(str::to_owned).collect())
}

#[tokio::test]
async fn the_rules_for_one_server_are_enough_and_none_is_too_many() -> Checked {
    let server = Server::redis()?;
    let rules = rules(&[FOR_DOCTOR]);
    hire(&server, &rules)?;
    let locks = leasehold::open(format!("redis://locks:pass@{}", server.addr())).await?;
    does_everything(&locks).await?;
    assert_eq!(refused(&server)?, "array([])");
    // A quiet connection is asked for a sign of life only now and then.
    let all_used = || async { Ok(unused(&server, &rules)?.is_empty()) };
    let outcome = until("each command is used", all_used).await;
    outcome.map_err(|error| format!("{error}: {:?}", unused(&server, &rules)).into())
}

#[tokio::test]
async fn the_rules_for_a_cluster_are_enough() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let url = fleet.url().replace("://", "://locks:pass@") + "?replicas=1";
    are_enough(&mut fleet, &url, &[FOR_DOCTOR, FOR_A_CLUSTER, FOR_REPLICAS]).await
}

#[tokio::test]
async fn the_rules_for_replicas_and_databases_are_enough() -> Checked {
    let mut fleet = Fleet::replicated(1)?;
    let url = fleet.url().replace("://", "://locks:pass@") + "3?replicas=1";
    are_enough(&mut fleet, &url, &[FOR_DOCTOR, FOR_A_LIST, FOR_REPLICAS, FOR_A_DATABASE]).await
}

async fn are_enough(fleet: &mut Fleet, url: &str, more: &[&str]) -> Checked {
    for server in fleet.servers() {
        hire(server, &rules(more))?;
    }
    does_everything(&leasehold::open(url).await?).await?;
    for server in fleet.servers() {
        assert_eq!(refused(server)?, "array([])");
    }
    Ok(())
}

#[tokio::test]
async fn the_rules_forbid_the_rest() -> Checked {
    let server = Server::redis()?;
    hire(&server, &rules(&[FOR_DOCTOR]))?;
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
        let forbidden = ["NOPERM", "The user executing the script can't"];
        assert!(forbidden.iter().any(|words| said.contains(words)), "{words:?}: {said}");
    }
    Ok(())
}
