//! Sessions and the locks that live in them.

use std::time::Duration;

use leasehold::ErrorKind;

use super::{BOUND, Checked, Database, LONG, until};

const ADVISORY: &str = "strategy=advisory";

/// P2: the server ends whoever rests for half a second or so. Sessions with
/// locks ask to be spared; shared ones are made again.
#[tokio::test]
async fn a_server_that_ends_resting_sessions_takes_no_lock_away() -> Checked {
    let impatient = ["-c", "idle_session_timeout=500ms"];
    let postgres = Database::postgres(|plan| plan.args(impatient))?;
    let mariadb = Database::mariadb(|plan| plan.args(["--wait-timeout=1"]))?;
    for db in [postgres, mariadb] {
        for options in ["strategy=table", ADVISORY] {
            let (one, two) =
                (leasehold::open(db.url(options)).await?, leasehold::open(db.url(options)).await?);
            let guard = one.mutex("n").ttl(LONG).lock().await?;
            a_bystander_is_ended(&db).await?;
            guard.check()?;
            assert!(two.mutex("n").try_lock().await?.is_none(), "{options}: two hold it");
            guard.release().await?;
            two.mutex("n").lock().within(BOUND).await?.release().await?;
        }
    }
    Ok(())
}

/// Somebody who does not ask to be spared rests, until the server ends it: then
/// others have rested for as long.
async fn a_bystander_is_ended(db: &Database) -> Checked {
    let url = db.server.url();
    if db.pick(true, false) {
        let (client, driver) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        let driver = tokio::spawn(driver);
        client.simple_query("SELECT 1").await?;
        let ended = tokio::time::timeout(BOUND, driver).await??;
        assert!(ended.is_err(), "the fault did not bite");
        return Ok(());
    }
    use mysql_async::prelude::Queryable;
    let mut conn = mysql_async::Conn::new(mysql_async::Opts::from_url(&url)?).await?;
    let id: i64 = conn.query_first("SELECT CONNECTION_ID()").await?.ok_or("no id")?;
    let there = format!("SELECT count(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
    until("the server ends a session", || async { Ok(db.number(&there)? == 0) }).await
}

/// P9: whoever takes the number of a name, by chance or at a prompt, has the
/// name; it is told who. The two halves of the number are another lock.
#[tokio::test]
async fn a_number_that_is_taken_is_a_name_that_is_taken() -> Checked {
    let db = Database::postgres(|plan| plan)?;
    let locks = leasehold::open(db.url(ADVISORY)).await?;
    let (client, driver) = tokio_postgres::connect(&db.server.url(), tokio_postgres::NoTls).await?;
    tokio::spawn(driver);
    let key = "hashtextextended('default:n', 0)";
    let halves = format!("SELECT pg_advisory_lock(({key} >> 32)::int, ({key} << 32 >> 32)::int)");
    client.simple_query(&halves).await?;
    locks.mutex("n").try_lock().await?.ok_or("halves are taken for the whole")?.release().await?;
    client.simple_query(&format!("SELECT pg_advisory_lock({key})")).await?;
    assert!(locks.mutex("n").try_lock().await?.is_none());
    let seen = locks.mutex("n").status().await?;
    assert!(seen.holders[0].label.contains("session "), "{seen:?}");
    Ok(())
}

/// P10: the server's table of locks is full. Who asks for one more is told so;
/// who holds goes on holding, and room that is made is used.
#[tokio::test]
async fn a_full_table_of_locks_is_an_error_and_takes_none_away() -> Checked {
    let small = ["-c", "max_locks_per_transaction=10", "-c", "max_connections=20"];
    let db = Database::postgres(|plan| plan.args(small))?;
    let locks = leasehold::open(db.url("strategy=advisory&retry=none")).await?;
    let other = leasehold::open(db.url(ADVISORY)).await?;
    let mut held = Vec::new();
    let error = loop {
        match locks.mutex(held.len().to_string()).ttl(LONG).try_lock().await {
            Ok(guard) => held.push(guard.ok_or("taken")?),
            Err(error) => break error,
        }
        assert!(held.len() < 20_000, "there is room for any number");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    held.iter().try_for_each(leasehold::Guard::check)?;
    assert!(other.mutex("0").try_lock().await.map_or(true, |it| it.is_none()), "it was let go");
    for guard in held {
        guard.release().await?;
    }
    locks.mutex("one more").lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// Y3: a wait that somebody stops at the server says neither yes nor no. It is
/// no grant, and the next one is.
#[tokio::test]
async fn a_wait_that_is_stopped_at_the_server_is_no_grant() -> Checked {
    let db = Database::mariadb(|plan| plan)?;
    let url = db.url("strategy=advisory&retry=forever:20ms");
    let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    let waiter = tokio::spawn(two.mutex("n").lock().within(LONG).into_future());
    for _ in 0..3 {
        let waits = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        until("it waits", || async { Ok(!db.tell(waits)?.is_empty()) }).await?;
        db.tell(&format!("KILL QUERY {}", db.number(waits)?))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiter.is_finished(), "{:?}", waiter.await?.map(drop));
    }
    guard.check()?;
    guard.release().await?;
    tokio::time::timeout(BOUND, waiter).await???.release().await?;
    Ok(())
}
