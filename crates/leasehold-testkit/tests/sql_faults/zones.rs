//! Time as the server tells it: in zones, in transactions, in statements.

use std::time::Duration;

use super::{BOUND, Checked, Database, LONG, is_guarded};

/// The user's table; its time is of a kind that has no zone where there is one.
const JOBS: [&str; 2] = [
    "CREATE TABLE jobs (job TEXT PRIMARY KEY, tok TEXT, until TIMESTAMPTZ)",
    "CREATE TABLE jobs (job VARBINARY(255) PRIMARY KEY, tok VARCHAR(40) CHARACTER SET utf8mb4, \
     until DATETIME(6))",
];
const UNIQUE: &str = "strategy=unique&table=jobs&column=job&token=tok&expires=until";

impl Database {
    /// New sessions live in this zone from now on.
    fn move_to(&self, zone: &str) -> Checked {
        self.tell(&self.pick(
            format!("ALTER ROLE postgres SET timezone = '{zone}'"),
            format!("SET GLOBAL time_zone = '{zone}'"),
        ))?;
        let seen = self.tell(self.pick("SHOW timezone", "SELECT @@time_zone"))?;
        assert_eq!(seen, [zone], "the fault did not bite");
        Ok(())
    }
}

/// T4: clients whose sessions are half a day apart, before and behind.
#[tokio::test]
async fn sessions_of_different_zones_agree_on_when_a_lease_ends() -> Checked {
    for db in Database::both()? {
        db.tell(db.pick(JOBS[0], JOBS[1]))?;
        for options in ["strategy=table", UNIQUE] {
            for (here, there) in [(9, -9), (-9, 9)] {
                let zone =
                    |hours: i32| db.pick(format!("<Z>{:+03}", -hours), format!("{hours:+03}:00"));
                db.move_to(&zone(here))?;
                let one = leasehold::open(db.url(options)).await?;
                db.move_to(&zone(there))?;
                let two = leasehold::open(db.url(options)).await?;
                agree(&one, &two).await?;
            }
        }
    }
    Ok(())
}

async fn agree(one: &leasehold::Locks, two: &leasehold::Locks) -> Checked {
    let long = one.mutex("long").ttl(LONG).lock().await?;
    let short = one.mutex("short").ttl(Duration::from_millis(300)).renew(false).lock().await?;
    assert!(two.mutex("long").try_lock().await?.is_none(), "it ended hours too early");
    let next = two.mutex("short").lock().within(BOUND).await?;
    assert!(short.check().is_err(), "two hold it");
    next.release().await?;
    long.check()?;
    long.release().await?;
    Ok(())
}

/// T5: what a transaction takes for now is when it began. That may say that
/// something is over, where too early is safe; whatever has to live is compared
/// with the clock itself.
#[tokio::test]
async fn no_statement_asks_for_a_time_that_stands_still() -> Checked {
    let postgres = Database::postgres(|plan| plan.args(["-c", "log_statement=all"]))?;
    let mariadb = Database::mariadb(|plan| plan)?;
    mariadb.tell("SET GLOBAL general_log_file = 'general.log'; SET GLOBAL general_log = ON")?;
    for db in [postgres, mariadb] {
        let (one, two) =
            (leasehold::open(db.server.url()).await?, leasehold::open(db.server.url()).await?);
        let guard = one.mutex("n").ttl(Duration::from_secs(1)).lock().await?;
        let waiter = tokio::spawn(two.mutex("n").lock().within(BOUND).into_future());
        guard.extend(LONG).await?;
        guard.release().await?;
        waiter.await??.release().await?;
        one.record::<u32>("r").set(&1).await?;
        let log = db.pick(db.server.log_text(), general_log(&db)).to_lowercase();
        assert!(log.contains(db.pick("clock_timestamp()", "utc_timestamp(6)")), "{log}");
        for still in [" now()", "current_timestamp", "localtime", "curdate"] {
            assert!(!log.contains(still), "{still} is asked for");
        }
        let lives = "expires > (extract(epoch from transaction_timestamp";
        // Who is looked for, and who stands in line, may be taken for alive too long.
        let looks = ["w.", "e.", "s.id = w.session and s."];
        let watched = looks.iter().fold(log, |log, it| log.replace(&format!("{it}{lives}"), ""));
        let watched = watched.replace("= $1 and expires > (", "");
        assert!(!watched.contains(lives), "a lease lives by a time that stands still");
    }
    Ok(())
}

fn general_log(db: &Database) -> String {
    let path = db.server.folder().join("data/general.log");
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// T5: a renewal that stands before a locked row took its time when it began.
/// The lease ends meanwhile and goes to another; the renewal that then goes
/// through gives it to nobody.
#[tokio::test]
async fn a_renewal_that_waits_past_its_lease_revives_nothing() -> Checked {
    for db in Database::both()? {
        let url = db.url("timeout=8s");
        let (one, two) = (leasehold::open(&url).await?, leasehold::open(&url).await?);
        let first = one.mutex("n").ttl(Duration::from_secs(2)).lock().await?;
        let locked = Locked::new(&db).await?;
        let second = two.mutex("n").ttl(LONG).lock().within(BOUND).await?;
        assert!(first.check().is_err_and(|error| error.is_lost()), "two hold it");
        locked.free().await?;
        let late = first.extend(LONG).await;
        assert!(late.is_err_and(|error| error.is_lost()), "it was revived");
        is_guarded(&first, &second)?;
        drop(first);
        one.shutdown(BOUND).await?;
        second.check()?;
        assert!(!second.release().await?.eq(&leasehold::Released::AlreadyLost));
    }
    Ok(())
}

/// Somebody who has locked all rows of sessions.
enum Locked {
    Postgres(tokio_postgres::Client),
    Mysql(mysql_async::Conn),
}

impl Locked {
    async fn new(db: &Database) -> Checked<Self> {
        use mysql_async::prelude::Queryable;
        let rows = "SELECT count(*) FROM (SELECT id FROM leasehold_sessions FOR UPDATE) s";
        let url = db.server.url();
        if db.pick(true, false) {
            let (client, driver) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            tokio::spawn(driver);
            client.simple_query(&format!("BEGIN; {rows}")).await?;
            return Ok(Self::Postgres(client));
        }
        let mut conn = mysql_async::Conn::new(mysql_async::Opts::from_url(&url)?).await?;
        conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN").await?;
        conn.query_drop("SELECT id FROM leasehold_sessions FOR UPDATE").await?;
        Ok(Self::Mysql(conn))
    }

    async fn free(self) -> Checked {
        use mysql_async::prelude::Queryable;
        match self {
            Self::Postgres(client) => drop(client.simple_query("COMMIT").await?),
            Self::Mysql(mut conn) => conn.query_drop("COMMIT").await?,
        }
        Ok(())
    }
}
