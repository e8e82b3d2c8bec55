//! The servers' limits change while sessions live.

use std::time::Duration;

use leasehold::Standing;
use leasehold_testkit::contest::{BOUND, Checked, is_guarded, until};
use leasehold_testkit::proxy::Fault;
use leasehold_testkit::server::Server;

use super::{LONG, NAME, open, proxy, stands};

/// Far longer than the servers keep a session after the change.
const TTL: Duration = Duration::from_secs(18);
/// What they keep it for then: a machine that starts servers is busy for seconds.
const SHORTER: (&str, Duration) = ("maxSessionTimeout=5000", Duration::from_secs(5));

/// Z11: the server comes back and keeps sessions for less. Whoever holds knows that
/// at once, and says so before anybody else can get in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_knows_that_its_session_has_become_shorter() -> Checked {
    let mut server = Server::zookeeper()?;
    let proxy = proxy(&server)?;
    let one = open(&server.url_via(proxy.addr())).await?;
    let guard = one.mutex(NAME).ttl(TTL).lock().await?;
    assert!(guard.remaining() > 2 * SHORTER.1, "{:?} remain", guard.remaining());
    server.kill()?;
    server.restart_with(&[SHORTER.0])?;
    until("it knows", || async { Ok(guard.remaining() < SHORTER.1) }).await?;
    stands(&guard, Standing::Held).await?;
    let two = open(&server.url()).await?;
    proxy.set_both(Fault::BlackHole);
    let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    let (standing, left) = (guard.standing(), guard.remaining());
    assert!(guard.check().is_err(), "two holders: {standing:?}, {left:?} left to the first");
    is_guarded(&guard, &next)
}

/// Z11: a place in line is as long as a session, and so is what is handed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_handed_over_knows_that_its_session_has_become_shorter() -> Checked {
    let mut server = Server::zookeeper()?;
    let proxy = proxy(&server)?;
    let (one, two) = (open(&server.url_via(proxy.addr())).await?, open(&server.url()).await?);
    let first = two.mutex(NAME).ttl(LONG).lock().await?;
    let waiting = tokio::spawn(one.mutex(NAME).ttl(TTL).lock().within(BOUND).into_future());
    super::queued(&two, 1).await?;
    server.kill()?;
    server.restart_with(&[SHORTER.0])?;
    until("both are back", || async { Ok(two.status(NAME).await?.waiters.len() == 1) }).await?;
    first.release().await?;
    let guard = waiting.await??;
    proxy.set_both(Fault::BlackHole);
    let next = two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    let (standing, left) = (guard.standing(), guard.remaining());
    assert!(guard.check().is_err(), "two holders: {standing:?}, {left:?} left to the first");
    is_guarded(&guard, &next)
}

/// The servers allow for more again, and so it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_gets_its_time_back() -> Checked {
    // Long enough to outlast two restarts.
    let (less, more) = (Duration::from_secs(30), Duration::from_secs(60));
    let mut server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(more).lock().await?;
    server.kill()?;
    server.restart_with(&["maxSessionTimeout=30000"])?;
    until("it is less", || async { Ok(guard.remaining() < less) }).await?;
    server.kill()?;
    server.restart_with(&["maxSessionTimeout=60000"])?;
    until("it is more", || async { Ok(guard.remaining() > less) }).await?;
    guard.check()?;
    guard.release().await?;
    Ok(())
}
