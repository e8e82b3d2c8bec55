//! Two releases of the library beside each other, of which one stores what it
//! keeps in another way.

use leasehold::engine::Page;
use leasehold::{ErrorKind, Locks};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{Checked, LONG};

/// Begins with a byte that no packed value begins with; then the layout.
const FOREIGN: &str = "return redis.call('SET', KEYS[1], '\\193\\002whatever it is')";

async fn is_refused(locks: &Locks) -> Checked {
    let mutex = locks.mutex("theirs").ttl(LONG).try_lock().await.map(drop);
    let reader = locks.rwlock("theirs").try_read().await.map(drop);
    let look = locks.status("theirs").await.map(drop);
    // Nobody can say who holds it, so a list that comes to it cannot be told either.
    let list = locks.list("", Page::default()).await.map(drop);
    for outcome in [mutex, reader, look, list] {
        let error = outcome.expect_err("it is of another layout");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("run the same release"), "{error}");
    }
    // Another name is nobody else's business.
    locks.mutex("ours").ttl(LONG).lock().await?.release().await?;
    Ok(())
}

/// R27: what another release has stored is refused with what to do, and left as
/// it is: one of two beside each other never grants what the other has granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_another_layout_is_refused() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let key = "leasehold:{default}:name:theirs";
    ask(&server, &["EVAL", FOREIGN, "1", key])?;
    ask(&server, &["ZADD", "leasehold:{default}:index", "0", "theirs"])?;
    is_refused(&locks).await?;
    let kept = ask(&server, &["STRLEN", key])?;
    assert!(kept.contains("16"), "it was changed: {kept}");
    Ok(())
}

/// R27: the same in a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_another_layout_is_refused_in_a_cluster() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let locks = leasehold::open(fleet.url()).await?;
    let guard = locks.mutex("theirs").ttl(LONG).lock().await?;
    let find = "return redis.call('KEYS', '*:name:theirs')[1] or ''";
    for server in fleet.servers().iter_mut().take(3) {
        let key = ask(server, &["EVAL", find, "0"])?.trim().trim_matches('"').to_owned();
        if !key.is_empty() {
            ask(server, &["EVAL", FOREIGN, "1", &key])?;
        }
    }
    is_refused(&locks).await?;
    drop(guard);
    Ok(())
}
