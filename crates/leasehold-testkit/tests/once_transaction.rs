//! Once in the user's own transaction, on a real PostgreSQL and MariaDB: record
//! and effect are both there, or neither is.

// These tests wait for real servers; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use leasehold::Locks;
use leasehold::once::{Done, Fingerprint, InTransaction, Once, OnceError, Refusal};
use leasehold::sql::{Dialect, OnceTable};
use leasehold_testkit::Server;
use leasehold_testkit::server::tell;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PAYMENTS: &str = "CREATE TABLE payments (amount BIGINT NOT NULL)";

fn prepared(server: &Server, dialect: Dialect) -> Tested {
    tell(&server.url(), PAYMENTS)?;
    for statement in OnceTable::default().schema(dialect).split(';').filter(|it| it.len() > 2) {
        tell(&server.url(), statement)?;
    }
    Ok(())
}

fn once() -> Once {
    Locks::memory().once("pay")
}

fn about(amount: i64) -> Fingerprint {
    Fingerprint::of_bytes(&amount.to_be_bytes())
}

async fn postgres(url: &str) -> Tested<tokio_postgres::Client> {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(client)
}

/// Pays in a transaction of its own, which ends as told.
async fn pay_postgres(
    url: &str,
    once: &Once,
    amount: i64,
    commit: bool,
) -> Tested<Result<Done, Refusal>> {
    let mut client = postgres(url).await?;
    let mut tx = client.transaction().await?;
    let done = match once.in_transaction(&mut tx, "key", about(amount)).await {
        Ok(InTransaction::First(first)) => {
            tx.execute("INSERT INTO payments VALUES ($1)", &[&amount]).await?;
            Ok(first.done(&mut tx, format!("paid {amount}")).await?)
        }
        Ok(InTransaction::Done(done)) => Ok(done),
        Err(refusal) => Err(refusal),
    };
    if commit {
        tx.commit().await?
    } else {
        tx.rollback().await?
    }
    Ok(done)
}

async fn pay_mysql(
    url: &str,
    once: &Once,
    amount: i64,
    commit: bool,
) -> Tested<Result<Done, Refusal>> {
    let mut conn = mysql_async::Conn::new(mysql_async::Opts::from_url(url)?).await?;
    let mut tx = conn.start_transaction(mysql_async::TxOpts::default()).await?;
    let done = match once.in_transaction(&mut tx, "key", about(amount)).await {
        Ok(InTransaction::First(first)) => {
            tx.exec_drop("INSERT INTO payments VALUES (?)", (amount,)).await?;
            Ok(first.done(&mut tx, format!("paid {amount}")).await?)
        }
        Ok(InTransaction::Done(done)) => Ok(done),
        Err(refusal) => Err(refusal),
    };
    if commit {
        tx.commit().await?
    } else {
        tx.rollback().await?
    }
    conn.disconnect().await?;
    Ok(done)
}

/// Pays in a transaction that is not ours; work that fails ends it otherwise.
async fn pay_whole(
    url: &str,
    once: &Once,
    amount: i64,
    commit: bool,
) -> Tested<Result<Done, Refusal>> {
    let mut client = postgres(url).await?;
    let work = async |tx: &tokio_postgres::Client| work(tx, amount, commit).await;
    told(once.transact(&mut client, "key", about(amount), work).await)
}

async fn work(tx: &tokio_postgres::Client, amount: i64, commit: bool) -> Result<String, String> {
    let paid = tx.execute("INSERT INTO payments VALUES ($1)", &[&amount]).await;
    paid.map_err(|error| error.to_string())?;
    commit.then(|| format!("paid {amount}")).ok_or_else(|| "not this time".into())
}

fn told(done: Result<Done, OnceError<String>>) -> Tested<Result<Done, Refusal>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(OnceError::Refused(refusal)) => Ok(Err(refusal)),
        Err(OnceError::Failed(message)) => {
            Ok(Err(Refusal::FailedBefore { message, age: Duration::ZERO }))
        }
        Err(error) => Err(error.into()),
    }
}

/// The whole story, for one family.
macro_rules! story {
    ($server:expr, $dialect:expr, $pay:ident) => {{
        let server = $server;
        let url = server.url();
        prepared(&server, $dialect)?;
        let payments = || -> Tested<String> {
            Ok(tell(&url, "SELECT CAST(count(*) AS CHAR(9)) FROM payments")?
                .concat()
                .trim()
                .to_owned())
        };
        // Rolled back: neither effect nor record.
        drop($pay(&url, &once(), 10, false).await?);
        assert_eq!(payments()?, "0");
        // Racers: one effect, one outcome.
        let mut racers = JoinSet::new();
        for _ in 0..8 {
            let (url, once) = (url.clone(), once());
            racers.spawn(async move { $pay(&url, &once, 10, true).await });
        }
        let mut fresh = 0;
        while let Some(done) = racers.join_next().await {
            let done = done???;
            assert_eq!(done.outcome, b"paid 10");
            fresh += u32::from(!done.replayed);
        }
        assert_eq!((fresh, payments()?.as_str()), (1, "1"));
        // Another payload.
        let other = $pay(&url, &once(), 11, true).await?;
        assert!(matches!(other, Err(Refusal::Mismatch)), "{other:?}");
        // Another scope, and another namespace.
        let ship = Locks::memory().once("ship");
        assert!(!$pay(&url, &ship, 10, true).await??.replayed);
        let space = Locks::memory().namespace("other")?.once("pay");
        assert!(!$pay(&url, &space, 10, true).await??.replayed);
        assert_eq!(payments()?, "3");
        // Too large to be kept: done all the same.
        let small = Locks::memory().once("small").max_outcome(3);
        assert!(!$pay(&url, &small, 10, true).await??.replayed);
        let again = $pay(&url, &small, 10, true).await?;
        assert!(matches!(again, Err(Refusal::NotKept { .. })), "{again:?}");
        // Its time is up: the key is free, and the sweep finds it.
        let brief = Locks::memory().once("brief").keep(Duration::from_millis(1));
        for _ in 0..2 {
            assert!(!$pay(&url, &brief, 10, true).await??.replayed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(payments()?, "6");
        let keys = || tell(&url, "SELECT CAST(count(*) AS CHAR(9)) FROM leasehold_once");
        assert_eq!(keys()?.concat().trim(), "5");
        tell(&url, &OnceTable::default().sweep($dialect))?;
        assert_eq!(keys()?.concat().trim(), "4");
    }};
}

#[tokio::test]
async fn exactly_one_effect_on_postgres() -> Tested {
    story!(Server::postgres()?, Dialect::Postgres, pay_postgres);
    Ok(())
}

#[tokio::test]
async fn exactly_one_effect_in_a_whole_transaction() -> Tested {
    story!(Server::postgres()?, Dialect::Postgres, pay_whole);
    Ok(())
}

#[tokio::test]
async fn exactly_one_effect_on_mariadb() -> Tested {
    story!(Server::mariadb()?, Dialect::Mysql, pay_mysql);
    Ok(())
}

/// A process that dies in the middle of a transaction leaves a connection that
/// breaks: the server rolls back, and the next one runs.
#[tokio::test]
async fn a_connection_that_breaks_anywhere_leaves_both_or_neither() -> Tested {
    let server = Server::postgres()?;
    prepared(&server, Dialect::Postgres)?;
    let url = server.url();
    let pay = "INSERT INTO payments VALUES (1)";
    for point in 0..4 {
        let key = format!("key {point}");
        let (mut client, driver) = tokio_postgres::connect(&url, NoTls).await?;
        let driver = tokio::spawn(async move { drop(driver.await) });
        let mut tx = client.transaction().await?;
        let taken = once().in_transaction(&mut tx, &*key, Fingerprint::none()).await?;
        let InTransaction::First(first) = taken else { panic!("done before") };
        if point > 0 {
            tx.execute(pay, &[]).await?;
        }
        if point > 1 {
            first.done(&mut tx, "paid").await?;
        }
        if point > 2 {
            tx.commit().await?;
        } else {
            // Nothing is said any more, not even a rollback.
            driver.abort();
            drop(tx);
        }
        let mut client = postgres(&url).await?;
        let mut tx = client.transaction().await?;
        let taken = once().in_transaction(&mut tx, &*key, Fingerprint::none()).await?;
        match taken {
            InTransaction::Done(done) => assert!(point == 3 && done.outcome == b"paid"),
            InTransaction::First(first) => {
                assert!(point < 3, "run again");
                tx.execute(pay, &[]).await?;
                first.done(&mut tx, "paid").await?;
            }
        }
        tx.commit().await?;
        let count = tell(&url, "SELECT count(*)::text FROM payments")?.concat();
        assert_eq!(count.trim(), (point + 1).to_string(), "point {point}");
    }
    Ok(())
}
