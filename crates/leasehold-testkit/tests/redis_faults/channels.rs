//! What a client listens to.

use leasehold::{Change, Locks};
use leasehold_testkit::server::{Server, ask};

use super::{Checked, until};

/// How many channels somebody listens to.
fn channels(server: &Server) -> Checked<usize> {
    Ok(ask(server, &["PUBSUB", "CHANNELS"])?.matches("bulk-string").count())
}

/// R23: a service with a namespace for each of its tenants.
#[tokio::test]
async fn a_client_listens_to_one_channel_whatever_its_namespaces() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    for n in 0..100 {
        let tenant = locks.namespace(format!("tenant-{n}"))?;
        tenant.mutex("x").lock().await?.release().await?;
    }
    assert_eq!(channels(&server)?, 1);
    Ok(())
}

/// R23: who watches no more listens no more, and others watch on.
#[tokio::test]
async fn a_watcher_that_goes_takes_its_channel_along_if_it_was_the_last() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let first = locks.records::<u32>("w").watch(usize::MAX).await?;
    let mut second = locks.records::<u32>("w").watch(usize::MAX).await?;
    assert_eq!(channels(&server)?, 1);
    drop(first);
    hears(&locks, &mut second, 1).await?;
    drop(second);
    until("nobody listens", || async { Ok(channels(&server)? == 0) }).await?;
    let mut third = locks.records::<u32>("w").watch(usize::MAX).await?;
    hears(&locks, &mut third, 2).await
}

async fn hears(locks: &Locks, watch: &mut leasehold::Watch<u32>, value: u32) -> Checked {
    locks.record::<u32>("w/a").set(&value).await?;
    loop {
        match watch.next().await?.ok_or("it ended")? {
            Change::Stored(_, record) if record.value == value => return Ok(()),
            _ => {}
        }
    }
}
