//! Locks on every shape of a Redis deployment, over its failures.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use leasehold::ConnectionState;
use leasehold_testkit::contest::{BOUND, Checked};
use leasehold_testkit::links::{TTL, hands_over, open, sees, works};
use leasehold_testkit::server::{Fleet, Plan, Server, ServerError, ask};

#[tokio::test]
async fn by_password_user_tls_and_socket() -> Checked {
    let plain = Server::redis()?;
    works(&open(&plain.socket_url()).await?, "a").await?;
    let password = Server::start(Plan::redis_password("pw"))?;
    works(&open(&password.url()).await?, "a").await?;
    works(&open(&password.socket_url()).await?, "a").await?;
    let user = Server::start(Plan::redis_user("me", "~* &* +@all"))?;
    works(&open(&user.url()).await?, "a").await?;
    let tls = Server::start(Plan::redis_tls())?;
    works(&open(&tls.url()).await?, "a").await?;
    let bare = tls.url().replace("?ca=", "?timeout=1s#");
    let bare = bare.split('#').next().unwrap_or_default();
    let error = open(bare).await.expect_err("nobody on the web vouches for it");
    assert!(error.to_string().contains("certificate"), "{error}");
    Ok(())
}

#[tokio::test]
async fn mutual_tls_wants_our_certificate() -> Checked {
    let server = Server::start(Plan::redis_tls().args(["--tls-auth-clients", "yes"]))?;
    assert!(open(&server.url()).await.is_err(), "not without one");
    let file = |name: &str| server.folder().join(name).display().to_string();
    let own = format!("&cert={}&cert_key={}", file("client.pem"), file("client.key"));
    works(&open(&format!("{}{own}", server.url())).await?, "a").await?;
    Ok(())
}

#[tokio::test]
async fn sentinels_promote_a_replica_and_the_lease_lives_on() -> Checked {
    let mut fleet = Fleet::watched(2)?;
    let url = format!("{}?retry=forever:50ms", fleet.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    // Whoever takes over has to know; it will have a replica less itself.
    let careful = open(&format!("{url}&replicas=2")).await?;
    let mut events = one.events();
    sees(&mut events, &[ConnectionState::Connected]).await;
    let guard = careful.mutex("kept").ttl(TTL).lock().await?;
    let old = fleet.kill_primary()?;
    sees(&mut events, &[ConnectionState::Suspended, ConnectionState::Reconnected]).await;
    assert_ne!(fleet.primary()?, old);
    assert!(two.mutex("kept").try_lock().await?.is_none(), "the replica had it");
    let fence = guard.fence();
    guard.release().await?;
    let next = two.mutex("kept").lock().await?;
    assert!(next.fence() > fence);
    hands_over(&one, &two, "other").await
}

#[tokio::test]
async fn a_cluster_survives_its_primary() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let url = format!("{}?retry=forever:50ms", fleet.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    // Whoever takes over has to know; it will have a replica less itself.
    let careful = open(&format!("{url}&replicas=1")).await?;
    for name in 0..20 {
        works(&one, &name.to_string()).await?;
    }
    hands_over(&one, &two, "before").await?;
    let mut events = one.events();
    sees(&mut events, &[ConnectionState::Connected]).await;
    let guard = careful.mutex("kept").ttl(TTL).lock().await?;
    let (at, _) = home_of(&mut fleet, "kept")?;
    fleet.servers()[at].kill()?;
    fleet.await_successor(at)?;
    sees(&mut events, &[ConnectionState::Suspended, ConnectionState::Reconnected]).await;
    assert!(two.mutex("kept").try_lock().await?.is_none(), "the replica had it");
    guard.release().await?;
    hands_over(&one, &two, "kept").await?;
    for name in 0..20 {
        works(&one, &name.to_string()).await?;
    }
    Ok(())
}

/// The primary that has the keys of a held lock, and one of them.
fn home_of(fleet: &mut Fleet, name: &str) -> Result<(usize, String), ServerError> {
    let keys = format!("*:name:{name}");
    for at in 0..3 {
        let found = ask(&fleet.servers()[at], &["EVAL", FIND, "0", &keys])?;
        if !found.is_empty() {
            return Ok((at, found));
        }
    }
    Err(ServerError::from(std::io::Error::other(format!("nobody has {name}"))))
}

const FIND: &str = "return redis.call('KEYS', ARGV[1])[1] or ''";

#[tokio::test]
async fn a_slot_moves_under_its_users() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let url = format!("{}?retry=forever:50ms", fleet.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    let guard = one.mutex("moving").ttl(TTL).lock().await?;
    let (from, key) = home_of(&mut fleet, "moving")?;
    let to = (from + 1) % 3;
    let slot = ask(&fleet.servers()[from], &["CLUSTER", "KEYSLOT", &key])?;
    let slot = slot.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let ids = [from, to].map(|at| ask(&fleet.servers()[at], &["CLUSTER", "MYID"]));
    let [source, target] = ids;
    let (source, target) = (source?, target?);
    ask(&fleet.servers()[to], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source])?;
    ask(&fleet.servers()[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target])?;
    // A script over keys that are partly there is told to try again, so these
    // wait until the slot has arrived.
    let moving = async {
        let port = fleet.servers()[to].port().to_string();
        until_refused(&fleet.servers()[from], "TRYAGAIN").await?;
        move_keys(&fleet.servers()[from], &slot, &port)?;
        until_refused(&fleet.servers()[from], "ASK").await?;
        for at in [to, from] {
            ask(&fleet.servers()[at], &["CLUSTER", "SETSLOT", &slot, "NODE", &target])?;
        }
        Ok::<_, ServerError>(())
    };
    let asking = two.mutex("moving");
    let (second, moved) = tokio::join!(asking.try_lock(), moving);
    moved?;
    assert!(second?.is_none(), "the lease has moved with its slot");
    guard.release().await?;
    hands_over(&one, &two, "moving").await
}

/// Waits until a server has refused something with this code.
async fn until_refused(server: &Server, code: &str) -> Result<(), ServerError> {
    let counted = format!("errorstat_{code}:");
    let refused = async {
        while !ask(server, &["INFO", "errorstats"])?.contains(&counted) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    tokio::time::timeout(BOUND, refused).await.expect("the fault did not bite")
}

fn move_keys(from: &Server, slot: &str, port: &str) -> Result<(), ServerError> {
    let list = "return table.concat(redis.call('KEYS', '*'), '\\n')";
    let keys = ask(from, &["EVAL", list, "0"])?;
    for key in keys.lines() {
        let here = ask(from, &["CLUSTER", "KEYSLOT", key])?;
        if here.contains(slot) {
            ask(from, &["MIGRATE", "127.0.0.1", port, key, "0", "5000"])?;
        }
    }
    Ok(())
}
