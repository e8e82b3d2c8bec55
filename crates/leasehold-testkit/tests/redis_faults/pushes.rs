//! Wake-ups that do not arrive.

use std::time::Duration;

use leasehold::{ConnectionState, Guard, Locks, Standing};
use leasehold_testkit::proxy::{Fault, Way};
use leasehold_testkit::server::{Plan, Server, ask};
use tokio::task::JoinHandle;

use super::{BOUND, Checked, LONG, proxy, until};

type Waiting = JoinHandle<leasehold::Result<Guard>>;

/// Somebody who waits for `n`, and is in the queue.
async fn waits(waiter: &Locks, seen_by: &Locks) -> Checked<Waiting> {
    let waiting = tokio::spawn(waiter.mutex("n").ttl(LONG).lock().within(BOUND).into_future());
    until("it queues", || async { Ok(seen_by.status("n").await?.waiters.len() == 1) }).await?;
    Ok(waiting)
}

/// R13: the name is handed over while the waiter cannot hear. The lease and
/// the place would last for minutes, so neither of them ends the wait.
#[tokio::test]
async fn a_wake_up_that_is_lost_is_made_up_for() -> Checked {
    let server = Server::redis()?;
    let proxy = proxy(&server)?;
    let near = leasehold::open(server.url()).await?;
    let far = leasehold::open(server.url_via(proxy.addr())).await?;
    let guard = near.mutex("n").ttl(LONG).lock().await?;
    let waiting = waits(&far, &near).await?;
    let before = proxy.counts().replies.lost;
    proxy.set(Way::Replies, Fault::BlackHole);
    guard.release().await?;
    proxy.wait_for(BOUND, |counts| counts.replies.lost > before);
    proxy.heal();
    waiting.await??.release().await?;
    Ok(())
}

/// R13: the holder leaves while the waiter's subscription and claim are still
/// on their way.
#[tokio::test]
async fn a_release_that_overtakes_the_waiter_is_not_missed() -> Checked {
    let server = Server::redis()?;
    let proxy = proxy(&server)?;
    let near = leasehold::open(server.url()).await?;
    let far = leasehold::open(server.url_via(proxy.addr())).await?;
    let guard = near.mutex("n").ttl(LONG).lock().await?;
    proxy.set(Way::Requests, Fault::Hold);
    let waiting = tokio::spawn(far.mutex("n").ttl(LONG).lock().within(BOUND).into_future());
    proxy.wait_for(BOUND, |counts| counts.requests.held > 0);
    guard.release().await?;
    proxy.heal();
    waiting.await??.release().await?;
    Ok(())
}

/// R14: the connection for pushes dies under a waiter; there is another, and
/// only one, however many wait.
#[tokio::test]
async fn a_killed_push_connection_is_replaced_and_waiters_hear_on() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (leasehold::open(server.url()).await?, leasehold::open(server.url()).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    let waiting = waits(&two, &one).await?;
    assert_ne!(ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"])?, "int(0)");
    until("it listens again", || async { subscribed(&server) }).await?;
    guard.release().await?;
    waiting.await??.release().await?;
    let clients = ask(&server, &["CLIENT", "LIST"])?;
    assert_eq!(clients.matches("name=leasehold").count(), 4, "{clients}");
    Ok(())
}

fn subscribed(server: &Server) -> Checked<bool> {
    Ok(ask(server, &["PUBSUB", "CHANNELS"])?.contains("push:"))
}

/// R16: the server closes what is quiet for a second. Nobody loses anything.
#[tokio::test]
async fn idle_connections_that_are_closed_cost_no_lease() -> Checked {
    let server = Server::start(Plan::redis().args(["--timeout", "1"]))?;
    let locks = leasehold::open(server.url()).await?;
    let mut events = locks.events();
    let guard = locks.mutex("n").ttl(LONG).lock().await?;
    for expected in
        [ConnectionState::Connected, ConnectionState::Suspended, ConnectionState::Reconnected]
    {
        assert_eq!(tokio::time::timeout(BOUND, events.next()).await?, Some(expected));
    }
    until("it is held again", || async { Ok(guard.standing() == Standing::Held) }).await?;
    guard.extend(LONG + Duration::from_secs(1)).await?;
    guard.release().await?;
    Ok(())
}
