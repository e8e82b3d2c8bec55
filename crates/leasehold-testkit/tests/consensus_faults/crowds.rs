//! Crowds of waiters whose connection breaks.

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;
use tokio::task::JoinSet;

use super::list_meter::ListMeter;
use super::{LONG, NAME, open};

const CROWD: usize = 1000;
/// What a server may be asked for at a time by one client.
const LISTS: usize = 64;
/// Answers may take their time on a busy machine: what is late is asked for again, and
/// counted.
const SLOW: &str = "names=raw&timeout=20s&retry=forever:20ms";

/// Z14: whoever is still behind the same one does not list the line to see that; and
/// when a thousand join, they do not list it all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_whose_connection_breaks_does_not_list_its_line() -> Checked {
    let server = Server::zookeeper()?;
    let meter = ListMeter::to(server.addr())?;
    let one = open(&server.url()).await?;
    let many = leasehold::open(format!("{}?{SLOW}", server.url_via(meter.addr))).await?;
    let guard = one.mutex(NAME).ttl(LONG).lock().await?;
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let lock = many.mutex(NAME).ttl(LONG).fair().lock().within(2 * BOUND);
        crowd.spawn(async move { lock.await?.release().await });
    }
    // Each watches its own node and the one before.
    until("all watch", || async { Ok(meter.watches() >= 2 * CROWD) }).await?;
    assert!(meter.most_lists() <= LISTS, "{} lists at a time", meter.most_lists());
    let listed = meter.lists();
    assert!(listed >= CROWD, "the lists were not seen");
    meter.cut();
    until("all watch again", || async { Ok(meter.watches() >= 4 * CROWD) }).await?;
    let again = meter.lists() - listed;
    assert!(again < CROWD / 100, "{again} lists after the cut");
    guard.release().await?;
    while let Some(done) = crowd.join_next().await {
        done??;
    }
    Ok(())
}
