//! What a lock costs on databases, beside bare statements of the same driver on
//! the same server, as ratios within one run. `cargo xtask bench --databases`
//! runs it.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Locks, Mutex};
use leasehold_testkit::server::Server;
use mysql_async::prelude::Queryable;
use tokio_postgres::{Client, NoTls, Statement};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 5;
const TASKS: i64 = 64;
/// Pairs of one task in a round, and of each of many.
const ALONE: u32 = 300;
const EACH: u32 = 30;
const HAND_OVERS: u32 = 100;

fn main() -> Outcome<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(report())
}

async fn report() -> Outcome<()> {
    println!("| work | time | bare | ratio |\n|---|---|---|---|");
    let (postgres, mariadb) = (Server::postgres()?, Server::mariadb()?);
    compare("postgres", &postgres.url(), Bare::postgres(&postgres.url()).await?).await?;
    compare("mysql", &mariadb.url(), Bare::mysql(&mariadb.url()).await?).await
}

async fn compare(what: &str, url: &str, bare: Bare) -> Outcome<()> {
    let table = leasehold::open(url).await?;
    let advisory = leasehold::open(format!("{url}?strategy=advisory")).await?;
    let bare = Arc::new(bare);
    for (name, locks) in [("table", &table), ("advisory", &advisory)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(pairs(&locks.mutex("m"), ALONE).await?);
            theirs.push(bare.pairs(1, ALONE, name == "advisory").await?);
        }
        row(&format!("{what}, {name}: lock + release, one task"), best(ours), best(theirs));
    }
    throughput(what, &table, &bare).await?;
    let other = leasehold::open(url).await?;
    let each = hand_over(&table, &other).await?;
    row(&format!("{what}, table: hand-over between two clients"), each, bare.trip().await?);
    Ok(())
}

async fn throughput(what: &str, locks: &Locks, bare: &Arc<Bare>) -> Outcome<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let locks = locks.clone();
        ours.push(
            crowd(move |n| {
                let mutex = locks.mutex(format!("t{n}"));
                async move { pairs(&mutex, EACH).await.map(drop) }
            })
            .await?,
        );
        let bare = Arc::clone(bare);
        theirs.push(
            crowd(move |n| {
                let bare = Arc::clone(&bare);
                async move { bare.pairs(n, EACH, false).await.map(drop) }
            })
            .await?,
        );
    }
    row(&format!("{what}, table: a pair of {TASKS} tasks"), best(ours), best(theirs));
    Ok(())
}

/// What a pair costs when many tasks make some.
async fn crowd<F>(task: impl Fn(i64) -> F) -> Outcome<Duration>
where
    F: Future<Output = Outcome<()>> + Send + 'static,
{
    let start = Instant::now();
    let tasks: Vec<_> = (1..=TASKS).map(|n| tokio::spawn(task(n))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(start.elapsed() / (u32::try_from(TASKS)? * EACH))
}

async fn pairs(mutex: &Mutex, count: u32) -> Outcome<Duration> {
    let start = Instant::now();
    for _ in 0..count {
        mutex.lock().await?.release().await?;
    }
    Ok(start.elapsed() / count)
}

/// From the release that leaves to the grant that is seen.
async fn hand_over(one: &Locks, two: &Locks) -> Outcome<Duration> {
    let mut total = Duration::ZERO;
    for _ in 0..HAND_OVERS {
        let held = one.mutex("handed").lock().await?;
        let waiting = two.mutex("handed");
        let waiter = tokio::spawn(async move { (waiting.lock().await, Instant::now()) });
        while one.status("handed").await?.waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let start = Instant::now();
        held.release().await?;
        let (guard, seen) = waiter.await?;
        total += seen - start;
        guard?.release().await?;
    }
    Ok(total / HAND_OVERS)
}

/// A row of a table, by the driver alone.
enum Bare {
    Postgres { client: Client, update: Statement, lock: Statement, unlock: Statement },
    Mysql(mysql_async::Pool),
}

const UPDATE: &str = "UPDATE bare SET n = n + 1 WHERE id = ";
const MAKE: &str = "CREATE TABLE bare (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)";

impl Bare {
    async fn postgres(url: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(MAKE).await?;
        let fill = "INSERT INTO bare SELECT i, 0 FROM generate_series(1, 64) i";
        client.batch_execute(fill).await?;
        Ok(Self::Postgres {
            update: client.prepare(&format!("{UPDATE}$1")).await?,
            lock: client.prepare("SELECT pg_try_advisory_lock($1)").await?,
            unlock: client.prepare("SELECT pg_advisory_unlock($1)").await?,
            client,
        })
    }

    async fn mysql(url: &str) -> Outcome<Self> {
        let pool = mysql_async::Pool::from_url(url)?;
        let mut connection = pool.get_conn().await?;
        connection.query_drop(MAKE).await?;
        for id in 1..=TASKS {
            connection.exec_drop("INSERT INTO bare VALUES (?, 0)", (id,)).await?;
        }
        drop(connection);
        Ok(Self::Mysql(pool))
    }

    /// Two statements, so many times.
    async fn pairs(&self, id: i64, count: u32, advisory: bool) -> Outcome<Duration> {
        let start = Instant::now();
        match self {
            Self::Postgres { client, update, lock, unlock } => {
                let (first, second) = if advisory { (lock, unlock) } else { (update, update) };
                for _ in 0..count {
                    client.query(first, &[&id]).await?;
                    client.query(second, &[&id]).await?;
                }
            }
            Self::Mysql(pool) => {
                let mut connection = pool.get_conn().await?;
                let update = format!("{UPDATE}?");
                let (first, second) = if advisory {
                    ("SELECT GET_LOCK(CONCAT('b', ?), 0)", "SELECT RELEASE_LOCK(CONCAT('b', ?))")
                } else {
                    (update.as_str(), update.as_str())
                };
                for _ in 0..count {
                    connection.exec_drop(first, (id,)).await?;
                    connection.exec_drop(second, (id,)).await?;
                }
            }
        }
        Ok(start.elapsed() / count)
    }

    /// One round trip that writes.
    async fn trip(&self) -> Outcome<Duration> {
        let mut trips = Vec::new();
        for _ in 0..ROUNDS {
            trips.push(self.pairs(1, ALONE, false).await? / 2);
        }
        Ok(best(trips))
    }
}

fn best(samples: Vec<Duration>) -> Duration {
    samples.into_iter().min().unwrap_or_default()
}

fn row(what: &str, ours: Duration, bare: Duration) {
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("| {what} | {ours:.0?} | {bare:.0?} | {ratio:.2} |");
}
