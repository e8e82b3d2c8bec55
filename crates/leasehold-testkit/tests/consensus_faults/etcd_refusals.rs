//! An etcd that refuses: it is full, or has forgotten who we are.

use leasehold::{ErrorKind, Released, Standing};
use leasehold_testkit::contest::{BOUND, Checked};
use leasehold_testkit::server::{Plan, Server};

use super::{LONG, NAME, open, stands};

/// E8: claims are refused with the reason, and what is held can be given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_refuses_claims_and_takes_releases() -> Checked {
    let server = Server::start(Plan::etcd().args(["--quota-backend-bytes=1048576"]))?;
    let locks = leasehold::open(format!("{}?names=raw&retry=none", server.url())).await?;
    let guard = locks.mutex(NAME).ttl(LONG).lock().await?;
    let value = "x".repeat(100_000);
    let full = (0..50).any(|at| server.tell(&["put", &format!("fill{at}"), &value]).is_err());
    assert!(full && server.tell(&["alarm", "list"])?.contains("NOSPACE"), "the fault did not bite");
    let error = locks.mutex("/m").ttl(LONG).lock().within(BOUND).await.err().ok_or("granted")?;
    assert_ne!(error.kind(), ErrorKind::TimedOut, "{error:?}");
    assert!(error.to_string().to_lowercase().contains("space"), "{error}");
    guard.check()?;
    assert_eq!(guard.release().await?, Released::Released);
    Ok(())
}

/// E8: a restart forgets every token. A new one is fetched, and guards go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_token_is_fetched_again() -> Checked {
    let mut server = Server::start(Plan::etcd().password("pw"))?;
    let locks = open(&server.url()).await?;
    let guard = locks.mutex(NAME).ttl(10 * super::BRIEF).lock().await?;
    server.kill()?;
    server.restart()?;
    let before = guard.deadline();
    leasehold_testkit::contest::until("a renewal", || async { Ok(guard.deadline() > before) })
        .await?;
    stands(&guard, Standing::Held).await?;
    guard.release().await?;
    locks.mutex(NAME).ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// A wrong password is told apart from a server that is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_refused_and_not_shown() -> Checked {
    let server = Server::start(Plan::etcd().password("pw"))?;
    let url = server.url().replace(":pw@", ":sesame@");
    let error = match leasehold::open(&url).await {
        Err(error) => error,
        Ok(locks) => locks.mutex(NAME).try_lock().await.err().ok_or("it was let in")?,
    };
    let text = format!("{error} {error:?}");
    assert!(!text.contains("sesame"), "{text}");
    assert_ne!(error.kind(), ErrorKind::TimedOut, "{error:?}");
    Ok(())
}

/// The same behind TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_behind_tls_and_a_password_is_a_lock() -> Checked {
    let server = Server::start(Plan::etcd().tls().password("pw"))?;
    let (one, two) = (leasehold::open(server.url()).await?, leasehold::open(server.url()).await?);
    let guard = one.mutex("n").ttl(LONG).lock().await?;
    assert!(two.mutex("n").try_lock().await?.is_none(), "two holders");
    guard.release().await?;
    two.mutex("n").ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}
