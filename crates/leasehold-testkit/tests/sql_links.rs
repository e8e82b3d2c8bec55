//! The way to a PostgreSQL or MariaDB, over its failures.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use leasehold::engine::profile::Survives;
use leasehold::engine::{Finding, Severity};
use leasehold::{ConnectionState, ErrorKind};
use leasehold_testkit::contest::{BOUND, Checked};
use leasehold_testkit::links::{TTL, open, sees, works};
use leasehold_testkit::proxy::{Fault, FaultProxy};
use leasehold_testkit::server::{Pair, Plan, Server};

fn with(url: &str, option: &str) -> String {
    format!("{url}{}{option}", if url.contains('?') { '&' } else { '?' })
}

/// A connection that was there, is not, and is again.
const BACK: [ConnectionState; 2] = [ConnectionState::Suspended, ConnectionState::Reconnected];

#[tokio::test]
async fn by_password() -> Checked {
    for plan in [Plan::postgres(), Plan::mariadb()] {
        let server = Server::start(plan.password("pw-hunter2"))?;
        works(&open(&server.url()).await?, "a").await?;
        for wrong in ["wrong-hunter2", ""] {
            let url = server.url().replace("pw-hunter2", wrong);
            let error = open(&url).await.expect_err("it is the wrong one");
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let url = server.url();
        let (place, _) = url.rsplit_once('/').unwrap_or_default();
        let error = open(&format!("{place}/nothing")).await.expect_err("there is no such database");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn by_tls() -> Checked {
    for plan in [Plan::postgres(), Plan::mariadb()] {
        let server = Server::start(plan.password("pw").tls())?;
        works(&open(&server.url()).await?, "verified").await?;
        let bare = server.url();
        let bare = bare.split('?').next().unwrap_or_default();
        for mode in ["disable", "prefer", "require"] {
            works(&open(&with(bare, &format!("sslmode={mode}"))).await?, mode).await?;
        }
        let error = open(&with(bare, "sslmode=verify-full")).await;
        let error = error.expect_err("nobody on the web vouches for it");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
        let missing = open(&with(bare, "ca=/nowhere/ca.pem")).await.expect_err("no such file");
        assert_eq!(missing.kind(), ErrorKind::Invalid, "{missing}");
    }
    let plain = Server::postgres()?;
    let error = open(&with(&plain.url(), "sslmode=require")).await.expect_err("it cannot");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    Ok(())
}

#[tokio::test]
async fn a_restart_is_survived_and_the_lease_with_it() -> Checked {
    for plan in [Plan::postgres(), Plan::mariadb()] {
        let mut server = Server::start(plan)?;
        let locks = open(&with(&server.url(), "retry=forever:50ms")).await?;
        let mut events = locks.events();
        sees(&mut events, &[ConnectionState::Connected]).await;
        let guard = locks.mutex("kept").ttl(TTL).lock().await?;
        server.restart()?;
        sees(&mut events, &BACK).await;
        assert!(open(&server.url()).await?.mutex("kept").try_lock().await?.is_none());
        guard.release().await?;
        works(&locks, "kept").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_black_hole_is_noticed_and_left() -> Checked {
    for plan in [Plan::postgres(), Plan::mariadb()] {
        let server = Server::start(plan)?;
        let addr = server.addr();
        let proxy = tokio::task::spawn_blocking(move || FaultProxy::to(addr)).await??;
        let url = with(&server.url_via(proxy.addr()), "timeout=500ms&connect=1s");
        let locks = open(&with(&url, "retry=forever:50ms")).await?;
        let bare = open(&with(&url, "retry=none")).await?;
        works(&bare, "before").await?;
        let mut events = locks.events();
        sees(&mut events, &[ConnectionState::Connected]).await;
        proxy.set_both(Fault::BlackHole);
        let error = bare.mutex("lost").ttl(TTL).try_lock().await.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        sees(&mut events, &[ConnectionState::Suspended]).await;
        proxy.heal();
        sees(&mut events, &[ConnectionState::Reconnected]).await;
        works(&locks, "after").await?;
    }
    Ok(())
}

#[tokio::test]
async fn behind_a_transaction_pooler() -> Checked {
    let server = Server::postgres()?;
    let pooler = Server::start(Plan::pgbouncer(server.port()))?;
    let (one, two) = (open(&pooler.url()).await?, open(&pooler.url()).await?);
    for name in 0..20 {
        works(&one, &name.to_string()).await?;
        works(&two, &name.to_string()).await?;
    }
    let guard = one.mutex("held").ttl(TTL).lock().await?;
    assert!(two.mutex("held").try_lock().await?.is_none());
    guard.release().await?;
    // What was said to a session of the pool stays with it, for everyone.
    let left = "SELECT current_setting('statement_timeout')";
    let said = std::process::Command::new("psql").args([&pooler.url(), "-Atqc", left]).output()?;
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "0");
    let found = one.examine().await?;
    assert!(found.iter().any(|it| it.message.contains("pooler")), "{found:?}");
    let error = open(&with(&pooler.url(), "strategy=advisory")).await.expect_err("no sessions");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    Ok(())
}

#[tokio::test]
async fn a_session_pooler_is_as_good_as_none() -> Checked {
    let server = Server::postgres()?;
    let pooler = Server::start(Plan::pgbouncer(server.port()).args(["pool_mode = session"]))?;
    works(&open(&with(&pooler.url(), "strategy=advisory")).await?, "a").await?;
    works(&open(&pooler.url()).await?, "a").await?;
    Ok(())
}

async fn fails_over(mut pair: Pair) -> Checked {
    let url = with(&pair.url(), "retry=forever:50ms");
    let (one, two) = (open(&url).await?, open(&url).await?);
    let mut events = one.events();
    sees(&mut events, &[ConnectionState::Connected]).await;
    let guard = one.mutex("kept").ttl(TTL).lock().await?;
    pair.catch_up()?;
    pair.primary.kill()?;
    pair.promote()?;
    sees(&mut events, &BACK).await;
    assert!(two.mutex("kept").try_lock().await?.is_none(), "the copy had it");
    let fence = guard.fence();
    guard.release().await?;
    assert!(two.mutex("kept").lock().await?.fence() > fence);
    Ok(())
}

#[tokio::test]
async fn a_standby_takes_over_and_the_lease_lives_on() -> Checked {
    fails_over(Pair::postgres()?).await
}

#[tokio::test]
async fn a_replica_takes_over_and_the_lease_lives_on() -> Checked {
    fails_over(Pair::mariadb()?).await
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_refused_alone_and_passed_over_in_company() -> Checked {
    for pair in [Pair::postgres()?, Pair::mariadb()?] {
        let error = open(&pair.copy.url()).await.expect_err("it takes no writes");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("name all servers"), "{error}");
        let (first, second) = (pair.primary.addr().to_string(), pair.copy.addr().to_string());
        let turned = pair.url().replace(&format!("{first},{second}"), &format!("{second},{first}"));
        works(&open(&turned).await?, "a").await?;
    }
    Ok(())
}

/// The one that was promoted last is right; the other may not know it yet.
#[tokio::test]
async fn two_servers_that_take_writes_are_noticed() -> Checked {
    let pair = Pair::postgres()?;
    works(&open(&pair.url()).await?, "a").await?;
    pair.catch_up()?;
    pair.promote()?;
    let locks = open(&pair.url()).await?;
    let found = locks.examine().await?;
    let danger = |it: &&Finding| it.severity == Severity::Danger;
    assert!(
        found.iter().filter(danger).any(|it| it.message.contains("more than one server")),
        "{found:?}"
    );
    let guard = locks.mutex("b").ttl(TTL).lock().await?;
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leasehold'";
    assert_ne!(pair.copy.sql(ours)?, "0", "this one was promoted");
    guard.release().await?;
    Ok(())
}

/// P13: each copies the other, and both take writes. Whoever reaches the one does
/// not see whom the other has let in.
#[tokio::test]
async fn two_servers_that_copy_each_other_are_refused() -> Checked {
    let pair = Pair::mariadb()?;
    pair.primary.sql(&format!(
        "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos; \
         CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
         MASTER_USE_GTID = slave_pos; START SLAVE",
        pair.copy.port()
    ))?;
    works(&open(&pair.url()).await?, "a").await?;
    pair.copy.sql("SET GLOBAL read_only = OFF")?;
    let error = open(&pair.url()).await.expect_err("two clients could hold one name");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    for word in [&pair.primary.addr().to_string(), &pair.copy.addr().to_string(), "read-only"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    let allowed = open(&with(&pair.url(), "rivals=allow")).await?;
    let found = allowed.examine().await?;
    let danger = |it: &&Finding| it.severity == Severity::Danger;
    assert!(
        found.iter().filter(danger).any(|it| it.message.contains("more than one server")),
        "{found:?}"
    );
    works(&allowed, "b").await?;
    pair.copy.sql("SET GLOBAL read_only = ON")?;
    works(&open(&pair.url()).await?, "c").await?;
    Ok(())
}

/// Two names for one server are no two servers.
#[tokio::test]
async fn one_server_may_be_named_twice() -> Checked {
    for server in [Server::postgres()?, Server::mariadb()?] {
        let (addr, port) = (server.addr().to_string(), server.port());
        let twice = server.url().replace(&addr, &format!("{addr},localhost:{port}"));
        works(&open(&twice).await?, "a").await?;
    }
    Ok(())
}

/// What is not on the standby is not told to have happened.
#[tokio::test]
async fn a_synchronous_standby_is_waited_for() -> Checked {
    let mut pair = Pair::postgres_synchronous()?;
    let url = with(&pair.url(), "timeout=500ms");
    let (locks, bare) = (open(&url).await?, open(&with(&url, "retry=none")).await?);
    assert_eq!(locks.profile().survives, Survives::Failover);
    works(&locks, "before").await?;
    pair.copy.pause()?;
    let error = bare.mutex("a").ttl(TTL).try_lock().await.expect_err("nobody has a copy");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    pair.copy.resume()?;
    let again = async { while bare.mutex("b").ttl(TTL).try_lock().await.is_err() {} };
    tokio::time::timeout(BOUND, again).await?;
    Ok(())
}
