//! Locks and fences in the user's own transaction.

use std::time::Duration;

use leasehold::sql::{self, Dialect, NameTable, Rule, Transaction, Wait};
use leasehold::{Error, ErrorKind};
use mysql_async::TxOpts;
use mysql_async::prelude::Queryable;

use crate::{BOUND, Checked, Database};

const GOODS: &str = "CREATE TABLE goods (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL, \
                     fence BIGINT NOT NULL DEFAULT 0, version BIGINT NOT NULL DEFAULT 0)";
const SEVEN: &str = "INSERT INTO goods (id, stock) VALUES (7, 10)";

impl Database {
    async fn with_goods(&self) -> Checked {
        self.run(GOODS).await?;
        self.run(SEVEN).await?;
        self.run(
            NameTable::new("leasehold_name_locks")?.schema(self.dialect).trim_end_matches(";\n"),
        )
        .await?;
        Ok(())
    }

    /// A write of someone who knows nothing of this library; the error as we
    /// understand it.
    async fn write(&self, statement: &str) -> Result<(), Error> {
        let failed = match self.run(statement).await {
            Ok(_) => return Ok(()),
            Err(failed) => failed,
        };
        let (code, said) = if let Some(error) = failed.downcast_ref::<tokio_postgres::Error>() {
            let said = error.as_db_error().expect("the server refused it");
            (said.code().code().to_owned(), said.message().to_owned())
        } else {
            match failed.downcast_ref::<mysql_async::Error>().expect("an error of a driver") {
                mysql_async::Error::Server(said) => (said.code.to_string(), said.message.clone()),
                other => panic!("{other}"),
            }
        };
        Err(sql::error(self.dialect, &code, &said))
    }
}

#[tokio::test]
async fn a_fence_check_refuses_older_and_stores_newer_on_postgres() -> Checked {
    let db = Database::postgres()?;
    db.with_goods().await?;
    let client = db.client().await?;
    let check = sql::fence_check(Dialect::Postgres, "goods", "id", "fence")?;
    for (fence, let_in) in [(17, 1), (17, 1), (16, 0), (18, 1), (17, 0)] {
        let rows = client.execute(check.text(), &[&fence_of(fence), &7_i64]).await?;
        assert_eq!(rows, let_in, "fence {fence}");
    }
    assert_eq!(db.number("SELECT fence FROM goods").await?, 18);
    Ok(())
}

const fn fence_of(number: i64) -> i64 {
    number
}

#[tokio::test]
async fn a_fence_check_refuses_older_and_stores_newer_on_mariadb() -> Checked {
    let db = Database::mariadb()?;
    db.with_goods().await?;
    let mut conn = db.conn().await?;
    let check = sql::fence_check(Dialect::Mysql, "goods", "id", "fence")?;
    assert_eq!(check.values(), ["fence", "id", "fence"]);
    for (fence, let_in) in [(17, true), (17, true), (16, false), (18, true), (17, false)] {
        conn.exec_drop(check.text(), (fence, 7, fence)).await?;
        // Without CLIENT_FOUND_ROWS: an equal fence changes no row.
        assert_eq!(conn.last_insert_id().is_some_and(|id| id > 0), let_in, "fence {fence}");
    }
    assert_eq!(db.number("SELECT fence FROM goods").await?, 18);
    Ok(())
}

#[tokio::test]
async fn a_versioned_update_notices_another_writer() -> Checked {
    for db in Database::both()? {
        db.with_goods().await?;
        let write = sql::versioned_update(db.dialect, "goods", "id", "version", &["stock"])?;
        let mut written = Vec::new();
        for (stock, version) in [(9, 0), (8, 0), (8, 1)] {
            written.push(match db.dialect {
                Dialect::Postgres => {
                    let values: [i64; 3] = [stock, 7, version];
                    let client = db.client().await?;
                    client.execute(write.text(), &[&values[0], &values[1], &values[2]]).await?
                }
                _ => {
                    let mut conn = db.conn().await?;
                    conn.exec_drop(write.text(), (stock, 7, version)).await?;
                    conn.affected_rows()
                }
            });
        }
        assert_eq!(written, [1, 0, 1], "{:?}", db.dialect);
        assert_eq!(db.number("SELECT stock FROM goods").await?, 8);
    }
    Ok(())
}

/// Runs `$body` with a function that begins a transaction on a new connection.
macro_rules! on_both {
    ($db:ident, $a:ident, $b:ident, $body:block) => {{
        let $db = Database::postgres()?;
        $db.with_goods().await?;
        let (mut one, mut two) = ($db.client().await?, $db.client().await?);
        {
            let (mut $a, mut $b) = (one.transaction().await?, two.transaction().await?);
            $body
        }
        let $db = Database::mariadb()?;
        $db.with_goods().await?;
        let (mut one, mut two) = ($db.conn().await?, $db.conn().await?);
        {
            let mut $a = one.start_transaction(TxOpts::default()).await?;
            let mut $b = two.start_transaction(TxOpts::default()).await?;
            $body
        }
    }};
}

#[tokio::test]
async fn a_name_is_locked_until_the_transaction_ends() -> Checked {
    on_both!(db, a, b, {
        assert!(sql::lock_in(&mut a, "import/7", Wait::Always).await?);
        assert!(sql::lock_in(&mut a, "import/7", Wait::No).await?, "its own lock is no obstacle");
        assert!(sql::lock_in(&mut b, "IMPORT/7", Wait::No).await?, "another name");
        let limit = Duration::from_millis(50);
        assert!(!sql::lock_in(&mut b, "import/7", Wait::AtMost(limit)).await?);
        assert!(!sql::lock_in(&mut b, "import/7", Wait::No).await?, "first time ever");
        let alive = b.run("SELECT 1 FROM goods WHERE stock = 10", &[]).await?;
        assert_eq!(alive.rows, 1, "the transaction goes on");
        a.commit().await?;
        assert!(sql::lock_in(&mut b, "import/7", Wait::No).await?);
        b.commit().await?;
        assert_eq!(db.number("SELECT count(*) FROM leasehold_name_locks").await?, 2);
    });
    Ok(())
}

#[tokio::test]
async fn a_known_name_is_skipped_at_once_and_limits_are_set_back() -> Checked {
    on_both!(db, a, b, {
        db.run("INSERT INTO leasehold_name_locks VALUES ('x')").await?;
        let ask = match db.dialect {
            Dialect::Postgres => "SELECT current_setting('lock_timeout')",
            _ => "SELECT CAST(@@innodb_lock_wait_timeout AS CHAR)",
        };
        let before = b.run(ask, &[]).await?;
        assert!(sql::lock_in(&mut a, "x", Wait::Always).await?);
        for wait in [Wait::No, Wait::Skip, Wait::AtMost(Duration::from_millis(1))] {
            assert!(!sql::lock_in(&mut b, "x", wait).await?, "{wait:?}");
        }
        assert_eq!(b.run(ask, &[]).await?, before);
        a.rollback().await?;
        assert!(sql::lock_in(&mut b, "x", Wait::AtMost(BOUND)).await?);
        assert_eq!(b.run(ask, &[]).await?, before);
        b.rollback().await?;
    });
    Ok(())
}

#[tokio::test]
async fn a_row_lock_is_refused_skipped_or_waited_for() -> Checked {
    on_both!(db, a, b, {
        let lock = |wait| sql::lock_row(db.dialect, "goods", "id", wait);
        // Places of values are numbers here; the row is named in the text.
        let seven = |text: &str| text.replace("$1", "7").replace('?', "7");
        let text = |wait| lock(wait).map(|it| seven(it.text()));
        assert_eq!(a.run(&text(Wait::Always)?, &[]).await?.rows, 1);
        assert_eq!(b.run(&text(Wait::Skip)?, &[]).await?.rows, 0);
        let refused = b.run(&text(Wait::No)?, &[]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
        b.rollback().await?;
        a.rollback().await?;
    });
    Ok(())
}

#[tokio::test]
async fn a_wait_limit_is_kept_and_told_as_a_wait() -> Checked {
    on_both!(db, a, b, {
        let wait = Wait::AtMost(Duration::from_millis(100));
        let lock = sql::lock_row(db.dialect, "goods", "id", wait)?;
        let text = lock.text().replace("$1", "7").replace('?', "7");
        a.run(&text, &[]).await?;
        b.run(sql::wait_limit(db.dialect, Duration::from_millis(100)).text(), &[]).await?;
        let late = b.run(&text, &[]).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
        b.rollback().await?;
        a.rollback().await?;
    });
    Ok(())
}

#[tokio::test]
async fn two_that_wait_for_each_other_are_told_to_run_again() -> Checked {
    on_both!(db, a, b, {
        assert_eq!(db.number("SELECT count(*) FROM goods").await?, 1);
        assert!(sql::lock_in(&mut a, "one", Wait::Always).await?);
        assert!(sql::lock_in(&mut b, "two", Wait::Always).await?);
        let (first, second) = tokio::join!(
            async {
                let got = sql::lock_in(&mut a, "two", Wait::Always).await;
                (got, a.rollback().await)
            },
            async {
                let got = sql::lock_in(&mut b, "one", Wait::Always).await;
                (got, b.rollback().await)
            }
        );
        let failed: Vec<_> = [first.0, second.0].into_iter().filter_map(Result::err).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].kind(), ErrorKind::Unavailable, "{failed:?}");
    });
    Ok(())
}

/// Reads, thinks and writes under the lock of a name that nobody has used.
async fn take_one(db: &Database, round: i64) -> Checked {
    let name = format!("goods/{round}");
    match db.dialect {
        Dialect::Postgres => {
            let mut client = db.client().await?;
            let mut tx = client.transaction().await?;
            sql::lock_in(&mut tx, &name, Wait::Always).await?;
            let stock: i64 = tx.query_one("SELECT stock FROM goods", &[]).await?.get(0);
            tokio::task::yield_now().await;
            tx.execute("UPDATE goods SET stock = $1", &[&(stock - 1)]).await?;
            tx.commit().await?;
        }
        _ => {
            let mut conn = db.conn().await?;
            // Its snapshot must not be older than the lock.
            let mut options = TxOpts::default();
            options.with_isolation_level(mysql_async::IsolationLevel::ReadCommitted);
            let mut tx = conn.start_transaction(options).await?;
            sql::lock_in(&mut tx, &name, Wait::Always).await?;
            let stock: Option<i64> = tx.query_first("SELECT stock FROM goods").await?;
            tx.exec_drop("UPDATE goods SET stock = ?", (stock.ok_or("no goods")? - 1,)).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn many_who_lock_a_new_name_take_turns_without_an_error() -> Checked {
    for db in Database::both()? {
        db.with_goods().await?;
        for round in 0..5 {
            let takers = (0..8).map(|_| take_one(&db, round));
            for taken in join_all(takers.collect()).await {
                taken?;
            }
        }
        assert_eq!(db.number("SELECT stock FROM goods").await?, 10 - 40, "{:?}", db.dialect);
        let log = db.server.log_tail();
        assert!(!log.contains("ERROR"), "{log}");
    }
    Ok(())
}

/// All of them, side by side.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|it| (Some(Box::pin(it)), None)).collect();
    std::future::poll_fn(|context| {
        let mut all = true;
        for (future, output) in &mut running {
            let Some(pending) = future else { continue };
            match pending.as_mut().poll(context) {
                std::task::Poll::Ready(value) => (*future, *output) = (None, Some(value)),
                std::task::Poll::Pending => all = false,
            }
        }
        if all { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test]
async fn a_guard_refuses_an_outside_writer_with_an_old_number() -> Checked {
    for db in Database::both()? {
        db.with_goods().await?;
        db.run("UPDATE goods SET fence = 5, version = 5").await?;
        let fences = sql::guard(db.dialect, "goods", "fence", Rule::Fence)?;
        db.run(&fences).await?;
        if db.dialect == Dialect::Postgres {
            // In place of the one that is there, in words that 12 knows.
            assert!(!fences.contains("OR REPLACE TRIGGER"), "{fences}");
            db.run(&fences).await?;
        }
        db.run(&sql::guard(db.dialect, "goods", "version", Rule::Version)?).await?;
        for late in ["fence = 4, version = 6", "version = 5", "version = 7", "stock = 1"] {
            let refused = db.write(&format!("UPDATE goods SET {late}")).await;
            assert!(refused.as_ref().is_err_and(Error::is_lost), "{late}: {refused:?}");
        }
        db.write("UPDATE goods SET fence = 6, version = 6").await?;
        db.write("UPDATE goods SET fence = 6, version = version + 1").await?;
        assert_eq!(db.number("SELECT version FROM goods").await?, 7);
    }
    Ok(())
}

/// A user's own table, in the user's own transaction, which goes on as it was.
#[tokio::test]
async fn a_table_without_a_key_is_seen_from_inside() -> Checked {
    for db in Database::both()? {
        db.with_goods().await?;
        db.run("CREATE TABLE bare (name VARCHAR(255))").await?;
        let (keyed, bare) = (NameTable::new("leasehold_name_locks")?, NameTable::new("bare")?);
        let (fine, told) = if db.dialect == Dialect::Postgres {
            let mut client = db.client().await?;
            let mut tx = client.transaction().await?;
            let seen = (keyed.examine(&mut tx).await?, bare.examine(&mut tx).await?);
            assert_eq!(tx.run("SHOW enable_seqscan", &[]).await?.first.as_deref(), Some("on"));
            seen
        } else {
            let mut conn = db.conn().await?;
            let mut tx = conn.start_transaction(TxOpts::default()).await?;
            (keyed.examine(&mut tx).await?, bare.examine(&mut tx).await?)
        };
        assert!(fine.is_none(), "{fine:?}");
        assert!(told.is_some_and(|it| it.message.starts_with("bare.name ")), "it has no key");
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_told_with_what_to_do() -> Checked {
    let db = Database::postgres()?;
    let mut client = db.client().await?;
    let mut tx = client.transaction().await?;
    let error = sql::lock_in(&mut tx, "x", Wait::Always).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("leasehold schema"), "{error}");
    Ok(())
}
