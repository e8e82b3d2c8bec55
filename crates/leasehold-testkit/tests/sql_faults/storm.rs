//! Storms: clients contend while the server is shaken, again and again.

use std::time::Duration;

use leasehold_testkit::check;
use leasehold_testkit::contest::Contest;

use super::{Checked, Database};

const KILLS: u32 = 40;

/// P1, P11, Y8: every connection is ended every 50 ms, those that carry pushes
/// too, and amid this the server itself dies once. Leases outlast all of it, so
/// whoever is left behind blocks a name for all to see.
async fn storm(mut db: Database) -> Checked {
    let contest = Contest::start(&db.url("retry=forever:20ms")).await?;
    let (mut times, mut ended) = (0, 0);
    let shake = || {
        times += 1;
        if times == KILLS / 2 {
            db.server.kill()?;
            db.server.restart()?;
        } else {
            ended += db.end_all()?;
        }
        Ok(())
    };
    contest.shake(KILLS, Duration::from_millis(50), shake).await?;
    assert!(ended > 2 * i64::from(KILLS), "hardly anyone was there to be ended: {ended}");
    contest.proceeds(3).await?;
    check::all(&contest.end().await?)?;
    db.is_left_clean().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_ends_all_connections_and_dies_once_keeps_nobody_out() -> Checked {
    storm(Database::postgres(|plan| plan)?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_ends_all_connections_and_dies_once_keeps_nobody_out() -> Checked {
    storm(Database::mariadb(|plan| plan)?).await
}
