//! Several servers that are one cluster, and take writes each.

use std::time::Duration;

use leasehold::ErrorKind;
use leasehold_testkit::server::Galera;
use mysql_async::prelude::Queryable;

use crate::{BOUND, Checked, LONG};

/// P14: each server has the advisory locks that were taken there, and no others.
#[tokio::test]
async fn servers_of_a_cluster_are_one_for_rows_but_not_for_advisory_locks() -> Checked {
    let galera = Galera::start()?;
    let guard = leasehold::open(galera.url()).await?.mutex("n").lock().await?;
    guard.release().await?;
    let advisory = format!("{}?strategy=advisory", galera.url());
    let error = leasehold::open(&advisory).await.expect_err("two clients could hold one name");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("known to one server alone"), "{error}");
    let allowed = leasehold::open(format!("{advisory}&rivals=allow")).await?;
    allowed.mutex("n").lock().await?.release().await?;
    Ok(())
}

/// P15: one that is behind does not answer from what it knows, but waits until it
/// has caught up.
#[tokio::test]
async fn a_server_that_is_behind_its_cluster_is_waited_for() -> Checked {
    let galera = Galera::start()?;
    let slow = format!("{}?timeout=20s", galera.second.url());
    let (one, two) = (leasehold::open(galera.first.url()).await?, leasehold::open(slow).await?);
    // The tables are there, and all that is said was said before.
    one.mutex("before").lock().await?.release().await?;
    two.mutex("n").lock().within(BOUND).await?.release().await?;
    two.mutex("n").status().await?;
    let mut stop = mysql_async::Conn::from_url(galera.second.url()).await?;
    stop.query_drop("FLUSH TABLES WITH READ LOCK").await?;
    let guard = one.mutex("n").ttl(LONG).lock().within(BOUND).await?;
    let mutex = two.mutex("n");
    let mut asked = tokio::spawn(async move { mutex.status().await });
    // It has time to answer wrongly.
    let early = tokio::time::timeout(Duration::from_secs(1), &mut asked).await;
    stop.query_drop("UNLOCK TABLES").await?;
    let seen = match early {
        Ok(seen) => seen??,
        Err(_) => tokio::time::timeout(BOUND, asked).await???,
    };
    assert_eq!(seen.holders.len(), 1, "it answered from what it knew");
    guard.release().await?;
    Ok(())
}
