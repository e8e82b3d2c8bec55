//! Statements on real servers.

use std::sync::Arc;

use super::super::server::Server;
use super::{Dialect, Link, Settings, Step, Value};
use crate::clock::Clock;
use crate::error::{ErrorKind, Outcome, Result};
use crate::url::Url;

async fn open(url: &str) -> Result<Link> {
    let url = Url::parse(url)?;
    Link::open(&Settings::from_url(&url)?, Clock::System).await
}

/// A statement with `?` for its values, in the dialect of the link.
fn text(link: &Link, sql: &str) -> Arc<str> {
    if link.dialect() == Dialect::Mysql {
        return sql.replace("BYTEA", "BLOB").into();
    }
    let mut parts = sql.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    let numbered = parts.enumerate().map(|(at, part)| format!("${}{part}", at + 1));
    numbered.fold(first, |sql, part| sql + &part).into()
}

async fn table(link: &Link) {
    link.batch(&text(link, "CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, n BIGINT, b BYTEA)"))
        .await
        .unwrap();
}

fn step(link: &Link, sql: &str, values: Vec<Value>, must_change: bool) -> Step {
    Step { sql: text(link, sql), values, must_change }
}

#[tokio::test]
async fn values_come_back_as_they_went() {
    for server in Server::each() {
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

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    for server in Server::each() {
        let link = open(&server.url()).await.unwrap();
        table(&link).await;
        let insert = |k: &str| step(&link, "INSERT INTO t (k) VALUES (?)", vec![k.into()], false);
        let change = step(&link, "UPDATE t SET n = 1 WHERE k = ?", vec!["none".into()], true);
        assert!(link.transact(vec![insert("a"), change]).await.unwrap().is_none());
        let twice = link.transact(vec![insert("a"), insert("a")]).await.unwrap_err();
        assert_eq!(twice.outcome(), Outcome::NotApplied, "{twice}");
        let count = text(&link, "SELECT COUNT(*) FROM t");
        let counted = |link: Link| async move {
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
    for server in Server::each() {
        let link = open(&server.url()).await.unwrap();
        let bad = link.run(&"SELECT * FROM nothing_here".into(), Vec::new()).await.unwrap_err();
        assert_eq!(bad.outcome(), Outcome::NotApplied, "{bad}");
        link.run(&"SELECT 1".into(), Vec::new()).await.unwrap();
        link.close().await;
        let closed = link.run(&"SELECT 1".into(), Vec::new()).await.unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Unavailable);
    }
}
