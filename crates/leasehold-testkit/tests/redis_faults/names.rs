//! Names that mean something to a server.

use leasehold::{ErrorKind, Locks, NAME_MAX};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{BOUND, Checked, LONG};

/// Braces, patterns, quotes, our own separators, and the longest there is.
fn names() -> Vec<String> {
    let odd =
        ["a{b}c", "{}", "{}x", "}{", "{", "{default}", "*", "a:b", "'\"`", "\\r\\n", "\u{1f512}"];
    odd.into_iter().map(str::to_owned).chain([("{".repeat(NAME_MAX))]).collect()
}

/// Each is a lock of its own, for every kind, and is found again.
async fn are_locks(locks: &Locks, other: &Locks) -> Checked {
    let mut held = Vec::new();
    for name in names() {
        held.push(locks.mutex(&name).ttl(LONG).lock().within(BOUND).await?);
        assert!(other.mutex(&name).try_lock().await?.is_none(), "{name}");
    }
    for guard in held {
        guard.release().await?;
    }
    for name in names() {
        let read = locks.rwlock(&name).ttl(LONG).read().within(BOUND).await?;
        other.rwlock(&name).read().within(BOUND).await?.release().await?;
        assert_eq!(other.status(&name).await?.holders.len(), 1, "{name}");
        read.release().await?;
    }
    Ok(())
}

/// R18: on one server.
#[tokio::test]
async fn odd_names_are_names() -> Checked {
    let server = Server::redis()?;
    let (one, two) = (leasehold::open(server.url()).await?, leasehold::open(server.url()).await?);
    are_locks(&one, &two).await?;
    for bad in ["", "a\nb", "a\0b", &"x".repeat(NAME_MAX + 1)] {
        let error = one.mutex(bad).try_lock().await.expect_err("it is no name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(ask(&server, &["DBSIZE"])?, "int(1)", "only the counter stays");
    Ok(())
}

/// R11, R18: no name steers its slot, and all keys of a name are in one.
#[tokio::test]
async fn odd_names_are_names_in_a_cluster() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let (one, two) = (leasehold::open(fleet.url()).await?, leasehold::open(fleet.url()).await?);
    are_locks(&one, &two).await?;
    for server in fleet.servers() {
        assert!(!ask(server, &["INFO", "errorstats"])?.contains("CROSSSLOT"));
    }
    Ok(())
}
