//! What tests of connections have in common: locks that must work over whatever
//! happens to a server.

use std::time::Duration;

use leasehold::{ConnectionEvents, ConnectionState, Locks};

use crate::contest::{BOUND, Checked, until};
use crate::server::Ensemble;

/// Outlasts every failure.
pub const TTL: Duration = Duration::from_secs(60);

/// Opens the engine of a URL.
///
/// # Errors
///
/// Those of [`leasehold::open`].
pub async fn open(url: &str) -> leasehold::Result<Locks> {
    leasehold::open(url).await
}

/// One lock and one release.
///
/// # Errors
///
/// When one of them fails.
pub async fn works(locks: &Locks, name: &str) -> leasehold::Result<()> {
    locks.mutex(name).ttl(TTL).lock().await?.release().await.map(drop)
}

/// Waits for states of the connection, one after the other.
///
/// # Panics
///
/// When another state comes, or none in time.
pub async fn sees(events: &mut ConnectionEvents, states: &[ConnectionState]) {
    for expected in states {
        let seen = tokio::time::timeout(BOUND, events.next()).await.expect("it never happened");
        assert_eq!(seen, Some(*expected));
    }
}

/// Names one lease that a waiter is told of, wherever it went meanwhile.
///
/// # Errors
///
/// When a request fails.
pub async fn hands_over(holder: &Locks, waiter: &Locks, name: &str) -> Checked {
    let guard = holder.mutex(name).ttl(TTL).lock().await?;
    let waiting = waiter.mutex(name).ttl(TTL).lock();
    let (waited, released) = tokio::join!(waiting, async {
        queued(holder, name).await?;
        Checked::Ok(guard.release().await?)
    });
    released?;
    waited?.release().await?;
    Ok(())
}

/// Waits until somebody waits for a name.
///
/// # Errors
///
/// When nobody does in time.
pub async fn queued(locks: &Locks, name: &str) -> Checked {
    let waits = || async {
        let status = locks.status(name).await;
        Ok(status.is_ok_and(|status| !status.waiters.is_empty()))
    };
    until("somebody waits", waits).await
}

/// The leader dies: whoever holds goes on holding, and whoever waits is served.
///
/// # Errors
///
/// When a request fails.
///
/// # Panics
///
/// When the others have forgotten what the leader knew.
pub async fn outlives_the_leader(mut ensemble: Ensemble) -> Checked {
    let url = format!("{}?retry=forever:50ms", ensemble.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    let guard = one.mutex("kept").ttl(TTL).lock().await?;
    let fence = guard.fence();
    let waiting = two.mutex("kept").ttl(TTL).lock();
    let (next, released) = tokio::join!(waiting, async {
        queued(&one, "kept").await?;
        ensemble.kill_leader().expect("a leader");
        ensemble.leader().expect("another leader");
        assert!(one.mutex("kept").try_lock().await?.is_none(), "the others had it");
        Checked::Ok(guard.release().await?)
    });
    released?;
    assert!(next?.fence() > fence);
    for at in 0..10 {
        hands_over(&one, &two, &at.to_string()).await?;
    }
    Ok(())
}
