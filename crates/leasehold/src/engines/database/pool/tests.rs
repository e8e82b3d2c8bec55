//! Statements on real servers.

use std::sync::Arc;
use std::time::Duration;

use super::super::server::{DatabaseServer, suited};
#[cfg(feature = "postgres")]
use super::Pool;
use crate::clock::Clock;
use crate::engine::Events;
use crate::engines::database::drivers::{DatabaseSettings, Notice, SqlStep, Value};
use crate::error::{Effect, ErrorKind, Result};
use crate::url::Url;

/// Ends a wait that would never end. Nothing is measured with it.
const LIMIT: Duration = Duration::from_secs(30);

async fn limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it never happened")
}

async fn open(url: &str) -> Result<Pool> {
    let url = Url::parse(url)?;
    Pool::open(&DatabaseSettings::from_url(&url)?, Clock::System).await
}

/// A statement with `?` for its values, in the dialect of the link.
fn text(link: &Pool, sql: &str) -> Arc<str> {
    if suited(link, false, true) {
        return sql.replace("BYTEA", "BLOB").into();
    }
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    let numbered = parts.enumerate().map(|(at, part)| format!("${}{part}", at + 1));
    numbered.fold(first, |sql, part| sql + &part).into()
}

async fn table(link: &Pool) {
    link.batch(&text(link, "CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, n BIGINT, b BYTEA)"))
        .await
        .unwrap();
}

fn step(link: &Pool, sql: &str, values: Vec<Value>, must_change: bool) -> SqlStep {
    SqlStep { sql: text(link, sql), values, must_change }
}

#[tokio::test]
async fn values_come_back_as_they_went() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        table(&link).await;
        let insert = text(&link, "INSERT INTO t VALUES (?, ?, ?)");
        let values = vec!["ä".into(), i64::MIN.into(), vec![0, 255].into()];
        assert_eq!(link.run(&insert, values).await.unwrap().affected, 1);
        let nulls = vec!["x".into(), Value::Null, Value::Null];
        assert_eq!(link.run(&insert, nulls).await.unwrap().affected, 1);
        let select = text(&link, "SELECT k, n, b, n IS NULL, n + 0 FROM t ORDER BY n IS NULL");
        let reply = link.run(&select, Vec::new()).await.unwrap();
        let (full, empty) = (&reply.rows[0], &reply.rows[1]);
        assert_eq!(full.text(0).unwrap(), "ä");
        assert_eq!(full.int(1).unwrap(), i64::MIN);
        assert_eq!(full.bytes(2).unwrap(), [0, 255]);
        assert_eq!((empty.maybe_int(1).unwrap(), empty.maybe_bytes(2).unwrap()), (None, None));
        let same = text(&link, "UPDATE t SET n = n WHERE k = ?");
        assert_eq!(link.run(&same, vec!["x".into()]).await.unwrap().affected, 1, "met");
    }
}

/// Also if only the second is prepared already, and whatever else is under way.
#[tokio::test]
async fn of_two_statements_the_second_sees_what_the_first_did() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        table(&link).await;
        let look =
            |k: &str| step(&link, "SELECT COUNT(*) FROM t WHERE k = ?", vec![k.into()], false);
        link.run(&look("a").sql, look("a").values).await.unwrap();
        let both = async |k: String| {
            let insert =
                step(&link, "INSERT INTO t (k) VALUES (?)", vec![k.as_str().into()], false);
            let [made, seen] = link.run_both(insert, look(&k)).await.unwrap();
            assert_eq!((made.affected, seen.rows[0].int(0).unwrap()), (1, 1), "{k}");
        };
        both("a".to_owned()).await;
        let [b, c, d] = ["b", "c", "d"].map(|k| both(k.to_owned()));
        tokio::join!(b, c, d);
        // The first was done, and nobody can tell: it is not said to have failed.
        let insert = step(&link, "INSERT INTO t (k) VALUES (?)", vec!["e".into()], false);
        let wrong =
            step(&link, "SELECT 1 / (COUNT(*) - 1) FROM t WHERE k = ?", vec!["e".into()], false);
        if suited(&link, true, false) {
            let error = link.run_both(insert, wrong).await.unwrap_err();
            assert_eq!(error.effect(), Effect::Unknown, "{error}");
        }
    }
}

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        table(&link).await;
        let insert = |k: &str| step(&link, "INSERT INTO t (k) VALUES (?)", vec![k.into()], false);
        let change = step(&link, "UPDATE t SET n = 1 WHERE k = ?", vec!["none".into()], true);
        assert!(link.transact(vec![insert("a"), change]).await.unwrap().is_none());
        let twice = link.transact(vec![insert("a"), insert("a")]).await.unwrap_err();
        assert_eq!(twice.effect(), Effect::NotApplied, "{twice}");
        let count = text(&link, "SELECT COUNT(*) FROM t");
        let counted = |link: Pool| async move {
            link.run(&count, Vec::new()).await.unwrap().rows[0].int(0).unwrap()
        };
        assert_eq!(counted.clone()(link.clone()).await, 0);
        let replies = link.transact(vec![insert("a"), insert("b")]).await.unwrap().unwrap();
        assert_eq!(replies.len(), 2);
        assert_eq!(counted(link.clone()).await, 2);
    }
}

#[tokio::test]
async fn a_refused_statement_is_an_error_and_the_link_goes_on() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        let bad = link.run(&"SELECT * FROM nothing_here".into(), Vec::new()).await.unwrap_err();
        assert_eq!(bad.effect(), Effect::NotApplied, "{bad}");
        link.run(&"SELECT 1".into(), Vec::new()).await.unwrap();
        link.close();
        let closed = link.run(&"SELECT 1".into(), Vec::new()).await.unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Unavailable);
    }
}

async fn int(link: &Pool, sql: &str) -> i64 {
    link.run(&sql.into(), Vec::new()).await.unwrap().rows[0].int(0).unwrap()
}

/// Ends sessions of this server from outside: all but our own.
async fn end_others(link: &Pool) {
    if suited(link, true, false) {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE application_name = 'leasehold' AND pid <> pg_backend_pid()";
        int(link, sql).await;
        return;
    }
    let sql = "SELECT id FROM information_schema.processlist \
               WHERE id <> CONNECTION_ID() AND command <> 'Daemon'";
    let others = link.run(&sql.into(), Vec::new()).await.unwrap();
    for other in &others.rows {
        link.batch(&format!("KILL {}", other.int(0).unwrap())).await.unwrap();
    }
}

async fn sees(events: &mut Events, expected: &str) {
    let event = limit(events.next()).await.unwrap();
    assert_eq!(format!("{event:?}"), expected);
}

#[tokio::test]
async fn a_connection_that_was_ended_is_made_again() {
    for server in DatabaseServer::each() {
        let (link, operator) =
            (open(&server.url()).await.unwrap(), open(&server.url()).await.unwrap());
        let mut events = link.events();
        end_others(&operator).await;
        sees(&mut events, "Suspended").await;
        sees(&mut events, "Reconnected").await;
        assert_eq!(int(&link, "SELECT 7").await, 7);
    }
}

#[tokio::test]
async fn a_restart_is_survived() {
    for mut server in DatabaseServer::each() {
        let link = open(&format!("{}?timeout=20s", server.url())).await.unwrap();
        let mut events = link.events();
        server.restart();
        sees(&mut events, "Suspended").await;
        sees(&mut events, "Reconnected").await;
        assert_eq!(int(&link, "SELECT 7").await, 7);
    }
}

#[tokio::test]
async fn a_row_held_by_another_ends_with_an_error_that_had_no_effect() {
    for server in DatabaseServer::each() {
        let url = format!("{}?timeout=1s", server.url());
        let (link, other) = (open(&url).await.unwrap(), open(&url).await.unwrap());
        table(&link).await;
        link.run(&"INSERT INTO t (k, n) VALUES ('a', 1)".into(), Vec::new()).await.unwrap();
        let mut holder = other.dedicate().await.unwrap();
        holder.run("START TRANSACTION", Vec::new()).await.unwrap();
        holder.run("UPDATE t SET n = 2", Vec::new()).await.unwrap();
        let update = "UPDATE t SET n = n + 1";
        let blocked = link.run(&update.into(), Vec::new()).await.unwrap_err();
        assert_eq!(blocked.kind(), ErrorKind::Unavailable, "{blocked:?}");
        drop(holder);
        let ended = limit(async {
            loop {
                match link.run(&update.into(), Vec::new()).await {
                    Ok(reply) => return reply,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
                }
            }
        });
        assert_eq!(ended.await.affected, 1);
    }
}

#[tokio::test]
async fn a_connection_of_ones_own_knows_its_end() {
    for server in DatabaseServer::each() {
        let (link, operator) =
            (open(&server.url()).await.unwrap(), open(&server.url()).await.unwrap());
        let mut own = link.dedicate().await.unwrap();
        own.run("SELECT 1", Vec::new()).await.unwrap();
        end_others(&operator).await;
        limit(own.closed()).await;
        assert!(own.run("SELECT 1", Vec::new()).await.is_err());
    }
}

#[tokio::test]
async fn a_connection_of_ones_own_ends_with_its_value() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        let own = link.dedicate().await.unwrap();
        let closed = own.closed();
        drop(own);
        limit(closed).await;
        let sql = suited(
            &link,
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'",
            "SELECT count(*) FROM information_schema.processlist WHERE command <> 'Daemon'",
        );
        limit(async { while int(&link, sql).await > 1 {} }).await;
    }
}

#[tokio::test]
async fn a_statement_can_be_stopped() {
    for server in DatabaseServer::each() {
        let link = open(&server.url()).await.unwrap();
        let mut own = link.dedicate().await.unwrap();
        let cancel = own.cancel();
        let sleep = suited(&link, "SELECT pg_sleep(600)", "SELECT 1 FROM (SELECT SLEEP(600)) AS s");
        let stop = async {
            let asleep = suited(
                &link,
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
                "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'",
            );
            while int(&link, asleep).await == 0 {}
            cancel.await;
        };
        // MySQL's sleep ends without an error.
        let (slept, ()) = limit(async { tokio::join!(own.run(sleep, Vec::new()), stop) }).await;
        assert!(slept.is_err() || suited(&link, false, true));
        own.run("SELECT 1", Vec::new()).await.unwrap();
    }
}

#[tokio::test]
#[cfg(feature = "postgres")]
async fn what_is_said_on_a_channel_is_heard_and_gaps_are_told() {
    let server = DatabaseServer::postgres();
    let link = open(&server.url()).await.unwrap();
    assert!(!link.behind_pooler());
    let mut heard = link.listen("a \"b\"");
    assert_eq!(limit(heard.next()).await, Some(Notice::Gap));
    link.run(&"SELECT pg_notify('a \"b\"', 'x')".into(), Vec::new()).await.unwrap();
    assert_eq!(limit(heard.next()).await, Some(Notice::Said("x".into())));
    end_others(&link).await;
    assert_eq!(limit(heard.next()).await, Some(Notice::Gap));
    assert_eq!(limit(heard.next()).await, Some(Notice::Gap));
    link.run(&"SELECT pg_notify('a \"b\"', 'y')".into(), Vec::new()).await.unwrap();
    assert_eq!(limit(heard.next()).await, Some(Notice::Said("y".into())));
}

#[tokio::test]
async fn many_at_once_share_few_connections() {
    for server in DatabaseServer::each() {
        let link = open(&format!("{}?connections=2", server.url())).await.unwrap();
        table(&link).await;
        let insert = text(&link, "INSERT INTO t (k, n) VALUES (?, ?)");
        let sql = "UPDATE t SET n = n + 1 WHERE k = ?";
        let work = (0..50).map(|at| {
            let (link, key) = (link.clone(), at.to_string());
            let (insert, add) =
                (Arc::clone(&insert), step(&link, sql, vec![key.as_str().into()], true));
            async move {
                link.run(&insert, vec![key.into(), 0.into()]).await.unwrap();
                link.transact(vec![add]).await.unwrap().unwrap();
            }
        });
        let mut all = tokio::task::JoinSet::new();
        for task in work {
            all.spawn(task);
        }
        limit(all.join_all()).await;
        assert_eq!(int(&link, "SELECT COUNT(*) FROM t WHERE n = 1").await, 50);
    }
}
