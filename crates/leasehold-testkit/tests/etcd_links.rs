//! Locks on every shape of an etcd deployment, over its failures.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use leasehold::ConnectionState;
use leasehold_testkit::contest::Checked;
use leasehold_testkit::links::{TTL, hands_over, open, outlives_the_leader, sees, works};
use leasehold_testkit::server::{Ensemble, Plan, Server};

#[tokio::test]
async fn by_password_and_tls() -> Checked {
    let password = Server::start(Plan::etcd().password("pw"))?;
    works(&open(&password.url()).await?, "a").await?;
    let wrong = open(&format!("etcd://root:wrong@{}", password.addr())).await;
    let wrong = wrong.expect_err("not with this one").to_string();
    assert!(wrong.contains("refuses this user") && !wrong.contains("wrong@"), "{wrong}");
    let tls = Server::start(Plan::etcd().tls())?;
    works(&open(&tls.url()).await?, "a").await?;
    let bare = format!("etcds://{}?timeout=1s", tls.addr());
    let error = open(&bare).await.expect_err("nobody on the web vouches for it");
    assert!(error.to_string().contains("certificate"), "{error}");
    let plain = open(&format!("etcd://{}?timeout=1s", tls.addr())).await;
    assert!(plain.is_err(), "it speaks nothing but TLS");
    Ok(())
}

#[tokio::test]
async fn mutual_tls_wants_our_certificate() -> Checked {
    let server =
        Server::start(Plan::etcd().tls().args(["--client-cert-auth", "--trusted-ca-file=ca.pem"]))?;
    let url = format!("{}&timeout=1s", server.url());
    assert!(open(&url).await.is_err(), "not without one");
    let file = |name: &str| server.folder().join(name).display().to_string();
    let own = format!("&cert={}&cert_key={}", file("client.pem"), file("client.key"));
    works(&open(&format!("{}{own}", server.url())).await?, "a").await?;
    Ok(())
}

#[tokio::test]
async fn leases_and_waiters_outlive_the_leader() -> Checked {
    outlives_the_leader(Ensemble::etcd(3)?).await
}

#[tokio::test]
async fn a_member_that_hangs_is_left() -> Checked {
    for at in 0..3 {
        let mut ensemble = Ensemble::etcd(3)?;
        let url = format!("{}?retry=forever:50ms&timeout=2s", ensemble.url());
        let (one, two) = (open(&url).await?, open(&url).await?);
        let ttl = Duration::from_secs(10);
        let guard = one.mutex("kept").ttl(ttl).lock().await?;
        ensemble.servers()[at].pause()?;
        hands_over(&one, &two, "other").await?;
        assert!(two.mutex("kept").try_lock().await?.is_none());
        guard.check()?;
        guard.release().await?;
        ensemble.servers()[at].resume()?;
        hands_over(&two, &one, "kept").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_a_majority_comes_back() -> Checked {
    let mut ensemble = Ensemble::etcd(3)?;
    let url = format!("{}?retry=forever:50ms&timeout=1s", ensemble.url());
    let (one, two) = (open(&url).await?, open(&url).await?);
    let guard = one.mutex("kept").ttl(TTL).lock().await?;
    let mut events = one.events();
    sees(&mut events, &[ConnectionState::Connected]).await;
    ensemble.kill_all()?;
    // Asking is what finds out, long before the next renewal.
    let (asked, ()) = tokio::join!(one.mutex("other").ttl(TTL).lock(), async {
        sees(&mut events, &[ConnectionState::Suspended]).await;
        ensemble.start_all().expect("all are back");
        sees(&mut events, &[ConnectionState::Reconnected]).await;
    });
    asked?.release().await?;
    assert!(two.mutex("kept").try_lock().await?.is_none(), "the lease has outlived it");
    guard.release().await?;
    hands_over(&one, &two, "kept").await
}
