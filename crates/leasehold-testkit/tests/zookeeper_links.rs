//! Locks on every shape of a ZooKeeper deployment, over its failures.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use leasehold::{ConnectionState, ErrorKind};
use leasehold_testkit::contest::{BOUND, Checked};
use leasehold_testkit::links::{TTL, hands_over, open, outlives_the_leader, sees, works};
use leasehold_testkit::server::{Ensemble, Plan, Server};
use leasehold_testkit::znodes::Znodes;

#[tokio::test]
async fn by_tls_and_not_without() -> Checked {
    let server = Server::start(Plan::zookeeper().tls())?;
    works(&open(&server.url()).await?, "a").await?;
    let bare = format!("zookeepers://{}?connect=2s", server.addr());
    let error = open(&bare).await.expect_err("nobody on the web vouches for it");
    assert!(error.to_string().contains("certificate"), "{error}");
    let plain = open(&format!("zookeeper://{}?connect=2s", server.addr())).await;
    assert!(plain.is_err(), "it speaks nothing but TLS");
    Ok(())
}

#[tokio::test]
async fn what_a_creator_made_others_cannot_touch() -> Checked {
    let server = Server::zookeeper()?;
    let own = format!("{}/mine?auth=digest:ann:hunter2&acl=creator", server.url());
    let ann = open(&own).await?;
    let guard = ann.mutex("a").ttl(TTL).lock().await?;
    let bob = open(&format!("{}/mine", server.url())).await?;
    let error = bob.mutex("a").ttl(TTL).try_lock().await.expect_err("they are Ann's");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error:?} {ann:?}").contains("hunter2"));
    // Whoever has the login shares the locks.
    let twin = open(&own).await?;
    assert!(twin.mutex("a").ttl(TTL).try_lock().await?.is_none());
    guard.release().await?;
    works(&twin, "a").await?;
    Ok(())
}

/// Its locks lie elsewhere, where it has the right.
#[tokio::test]
async fn who_may_not_make_the_root_opens_all_the_same() -> Checked {
    let server = Server::zookeeper()?;
    let own = format!("{}/mine?auth=digest:ann:hunter2&acl=creator", server.url());
    let ann = open(&own).await?;
    let guard = ann.mutex("a").ttl(TTL).lock().await?;
    let bob = open(&format!("{}?names=raw&root=/mine/none", server.url())).await?;
    works(&bob, "/apps/job").await?;
    assert!(Znodes::connect(server.addr())?.stat("/mine/none")?.is_none(), "he may make it");
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn nodes_are_where_the_url_says() -> Checked {
    let server = Server::zookeeper()?;
    let mut znodes = Znodes::connect(server.addr())?;
    let raw = open(&format!("{}/shop?names=raw&lock=seq-", server.url())).await?;
    let guard = raw.mutex("/jobs/nightly").ttl(TTL).lock().await?;
    let nodes = znodes.children("/shop/jobs/nightly")?;
    assert!(nodes[0].starts_with("_c_") && nodes[0].ends_with("-seq-0000000000"), "{nodes:?}");
    guard.release().await?;
    assert!(raw.mutex("nightly").try_lock().await.is_err(), "a name is a path here");
    let rooted = open(&format!("{}?root=/a/b&mutex=semaphore", server.url())).await?;
    let guard = rooted.mutex("x/y").ttl(TTL).lock().await?;
    assert_eq!(znodes.children("/a/b/default/locks/x%2Fy/leases")?.len(), 1);
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_ttl_shorter_than_a_session_is_refused_with_the_limit() -> Checked {
    let server = Server::start(Plan::zookeeper().args(["minSessionTimeout=3000"]))?;
    let locks = open(&server.url()).await?;
    let short = locks.mutex("a").ttl(Duration::from_secs(2)).lock().await;
    let error = short.expect_err("no session is so short").to_string();
    assert!(error.contains("3s"), "{error}");
    locks.mutex("a").ttl(Duration::from_secs(3)).lock().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn nothing_stays_behind_a_client_that_closes() -> Checked {
    let server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex("a").ttl(TTL).lock().await?;
    let mut znodes = Znodes::connect(server.addr())?;
    assert_eq!(znodes.children("/leasehold/default/locks/a")?.len(), 1);
    drop((guard, locks));
    let gone = async {
        while !znodes.children("/leasehold/default/locks/a").expect("it answers").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, gone).await?;
    Ok(())
}

#[tokio::test]
async fn an_empty_folder_that_the_server_removes_is_made_again() -> Checked {
    let server = Server::zookeeper()?;
    let locks = open(&server.url()).await?;
    works(&locks, "a").await?;
    let mut znodes = Znodes::connect(server.addr())?;
    let reaped = async {
        while znodes.stat("/leasehold/default/locks/a").expect("it answers").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(BOUND, reaped).await?;
    works(&locks, "a").await?;
    Ok(())
}

#[tokio::test]
async fn leases_and_waiters_outlive_the_leader() -> Checked {
    outlives_the_leader(Ensemble::zookeeper(3)?).await
}

#[tokio::test]
async fn a_server_that_hangs_is_left() -> Checked {
    let mut ensemble = Ensemble::zookeeper(3)?;
    let leader = ensemble.leader()?;
    let follower = (leader + 1) % 3;
    let url = format!("{}?retry=forever:50ms&timeout=1s&connect=3s", ensemble.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    let ttl = Duration::from_secs(10);
    let guard = one.mutex("kept").ttl(ttl).lock().await?;
    ensemble.servers()[follower].pause()?;
    hands_over(&one, &two, "other").await?;
    assert!(two.mutex("kept").ttl(TTL).try_lock().await?.is_none());
    guard.check()?;
    guard.release().await?;
    ensemble.servers()[follower].resume()?;
    hands_over(&two, &one, "kept").await
}

#[tokio::test]
async fn a_restart_within_the_session_loses_nothing() -> Checked {
    let mut server = Server::zookeeper()?;
    let url = format!("{}?retry=forever:50ms", server.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    let mut events = one.events();
    sees(&mut events, &[ConnectionState::Connected]).await;
    let guard = one.mutex("kept").ttl(TTL).lock().await?;
    server.kill()?;
    sees(&mut events, &[ConnectionState::Suspended]).await;
    server.restart()?;
    sees(&mut events, &[ConnectionState::Reconnected]).await;
    assert!(two.mutex("kept").ttl(TTL).try_lock().await?.is_none(), "the lease has outlived it");
    guard.check()?;
    guard.release().await?;
    hands_over(&one, &two, "kept").await
}
