//! A row in the user's table as a lock.

use std::time::Duration;

use leasehold::sql::Dialect;
use leasehold::{Effect, ErrorKind, Locks};
use leasehold_testkit::proxy::{Fault, FaultProxy, Way};

use crate::{BOUND, Checked, Database, LONG, until};

const BARE: &str = "strategy=unique&table=jobs&column=job&owner=who";
const FULL: &str = "strategy=unique&table=jobs&column=job&owner=who&token=tok&expires=until";

impl Database {
    /// The user's table, with columns that we know nothing of.
    async fn with_jobs(&self) -> Checked {
        let create = match self.dialect {
            Dialect::Postgres => {
                "CREATE TABLE jobs (id BIGSERIAL PRIMARY KEY, job TEXT NOT NULL UNIQUE, tok TEXT, \
                 until TIMESTAMPTZ, who VARCHAR(20), note TEXT NOT NULL DEFAULT '')"
            }
            _ => {
                "CREATE TABLE jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
                 job VARBINARY(255) NOT NULL UNIQUE, tok VARCHAR(40) CHARACTER SET utf8mb4, \
                 until DATETIME(6), who VARCHAR(20) CHARACTER SET utf8mb4, \
                 note TEXT NOT NULL DEFAULT '')"
            }
        };
        self.run(create).await.map(drop)
    }

    async fn open(&self, options: &str) -> Checked<Locks> {
        Ok(leasehold::open(self.url(options)).await?)
    }

    async fn jobs(&self) -> Checked<i64> {
        self.number("SELECT count(*) FROM jobs").await
    }
}

#[tokio::test]
async fn insert_is_lock_and_delete_is_unlock() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        for options in [BARE, FULL] {
            let (one, two) = (db.open(options).await?, db.open(options).await?);
            let guard =
                one.mutex("nightly").label("a label of more than 20 letters").lock().await?;
            let who = db.run("SELECT who FROM jobs WHERE job = 'nightly'").await?;
            assert_eq!(who, ["a label of more than"]);
            assert!(two.mutex("nightly").try_lock().await?.is_none());
            assert!(two.mutex("Nightly").try_lock().await?.is_some(), "another name");
            let waiter = tokio::spawn(two.mutex("nightly").lock().within(LONG).into_future());
            guard.release().await?;
            waiter.await??.release().await?;
            until("no row is left", || async { Ok(db.jobs().await? == 0) }).await?;
        }
        let log = db.server.log_tail();
        assert!(!log.contains("ERROR"), "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn a_row_of_someone_else_is_a_lock_too() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        db.run("INSERT INTO jobs (job, who) VALUES ('nightly', 'a script')").await?;
        for options in [BARE, FULL] {
            let locks = db.open(options).await?;
            let limit = Duration::from_millis(200);
            let error = locks.mutex("nightly").lock().within(limit).await.unwrap_err();
            assert!(error.is_timed_out() && error.to_string().contains("a script"), "{error}");
        }
        let waiting = db.open(FULL).await?;
        let waiter = tokio::spawn(waiting.mutex("nightly").lock().within(LONG).into_future());
        db.run("DELETE FROM jobs").await?;
        waiter.await??.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_row_that_is_over_is_taken_and_its_late_holder_deletes_nothing() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        let (one, two) = (db.open(FULL).await?, db.open(FULL).await?);
        let short = Duration::from_millis(100);
        let late = one.mutex("nightly").ttl(short).renew(false).lock().await?;
        let next = two.mutex("nightly").lock().within(LONG).await?;
        assert!(late.check().is_err_and(|error| error.is_lost()));
        drop(late);
        one.shutdown(BOUND).await?;
        next.check()?;
        assert_eq!(db.jobs().await?, 1, "{:?}", db.dialect);
    }
    Ok(())
}

/// Without a token the row that is there after a lost answer may be anybody's.
#[tokio::test]
async fn a_release_whose_answer_was_lost_does_not_delete_the_next_ones_row() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        let addr = db.server.addr();
        let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
        let far = format!("{}?{BARE}&timeout=5s", db.server.url_via(proxy.addr()));
        let (one, two) = (leasehold::open(far).await?, db.open(BARE).await?);
        // What was not prepared would not be sent.
        one.mutex("before").lock().await?.release().await?;
        let guard = one.mutex("nightly").ttl(LONG).lock().await?;
        proxy.set(Way::Replies, Fault::BlackHole);
        let release = tokio::spawn(guard.release());
        until("the row is deleted", || async { Ok(db.jobs().await? == 0) }).await?;
        let next = two.mutex("nightly").ttl(LONG).lock().within(BOUND).await?;
        assert!(proxy.counts().replies.lost > 0, "the fault did not bite");
        proxy.heal();
        let told = tokio::time::timeout(BOUND, release).await??.unwrap_err();
        assert_eq!(told.effect(), Effect::Unknown, "{told}");
        assert!(one.mutex("nightly").try_lock().await?.is_none(), "{:?}: two hold it", db.dialect);
        assert_eq!(db.jobs().await?, 1);
        next.check()?;
    }
    Ok(())
}

#[tokio::test]
async fn an_outsider_who_deletes_the_row_ends_the_lease() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        for options in [BARE, FULL] {
            let locks = db.open(options).await?;
            let guard = locks.mutex("nightly").ttl(Duration::from_millis(300)).lock().await?;
            assert_eq!(db.jobs().await?, 1);
            db.run("DELETE FROM jobs").await?;
            tokio::time::timeout(BOUND, guard.lost()).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_table_that_is_not_fit_is_refused_with_what_to_do() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        let cases = [
            ("strategy=unique&table=jobs", "needs the option \"column\""),
            ("strategy=unique&table=jobs&column=note", "is not unique"),
            ("strategy=unique&table=jobs&column=nothing", "no table \"jobs\" with a column"),
            ("strategy=unique&table=nothing&column=job", "no table \"nothing\""),
            ("strategy=unique&table=jobs&column=id", "must be"),
            ("strategy=unique&table=jobs&column=job&expires=until", "needs \"token\""),
            ("strategy=unique&table=jobs&column=job&token=tok&expires=note", "must be"),
            ("strategy=unique&table=jobs%22--&column=job", "cannot be the name"),
            ("strategy=unique&table=jobs&column=job&prefix=x", "says nothing"),
        ];
        for (options, says) in cases {
            let error = leasehold::open(db.url(options)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
    Ok(())
}

/// What doctor says of scans.
async fn scans(locks: &Locks) -> Checked<Vec<String>> {
    let found = locks.examine().await?.into_iter().map(|finding| finding.message);
    Ok(found.filter(|message| message.contains("reads all of")).collect())
}

/// A server that finds no index reads every row, and one family locks them all.
#[tokio::test]
async fn doctor_tells_of_a_table_that_is_read_as_a_whole() -> Checked {
    for db in Database::both()? {
        db.with_jobs().await?;
        let locks = db.open(&format!("{FULL}&timeout=8s")).await?;
        locks.mutex("a").lock().await?.release().await?;
        assert!(scans(&locks).await?.is_empty(), "there is an index");
        db.run(match db.dialect {
            Dialect::Postgres => "ALTER TABLE jobs DROP CONSTRAINT jobs_job_key",
            _ => "ALTER TABLE jobs DROP INDEX job",
        })
        .await?;
        let told = scans(&locks).await?;
        assert!(told.iter().any(|message| message.starts_with("jobs.job ")), "{told:?}");
        let locked = told.iter().any(|message| message.contains("locks every row"));
        assert_eq!(locked, db.dialect == Dialect::Mysql, "{told:?}");
    }
    Ok(())
}

#[tokio::test]
async fn doctor_looks_at_the_names_that_transactions_lock() -> Checked {
    for db in Database::both()? {
        let locks = leasehold::open(db.url("")).await?;
        let table = leasehold::sql::NameTable::new("leasehold_name_locks")?;
        db.run(table.schema(db.dialect).trim_end_matches(";\n")).await?;
        assert!(scans(&locks).await?.is_empty(), "it has a key");
        db.run("DROP TABLE leasehold_name_locks").await?;
        db.run("CREATE TABLE leasehold_name_locks (name VARCHAR(255))").await?;
        let told = scans(&locks).await?;
        assert!(told.iter().any(|it| it.starts_with("leasehold_name_locks.name ")), "{told:?}");
    }
    Ok(())
}
